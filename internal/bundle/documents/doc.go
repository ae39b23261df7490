// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents reads the objects in YAML and JSON files of artifacts. The files may be hostile. The package does
// not handle charts and kustomizations: packages bundle and kustomize do.
//
// A [Reader] collects the objects of files. It weighs each text, and reserves memory, before it parses the text. It
// splits lists into their objects, and refuses an object that it has already read. An [Object] can be written to a file
// of a chart: as YAML, or as a template that Helm renders to exactly this object.
//
// Errors have the kind unpack.ErrInvalidManifests or unpack.ErrTooLarge, and name the file and the line.
package documents
