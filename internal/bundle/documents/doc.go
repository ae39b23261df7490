// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents reads the objects in YAML and JSON files of artifacts, which may be hostile.
//
// A [Reader] collects the objects of any number of files. It splits lists into their objects, refuses an object that it
// has read before, and weighs each text before it is parsed. An [Object] can be written as a file of a chart: as YAML, or
// as a template that Helm renders to exactly this object.
//
// Errors have the kind unpack.ErrInvalidManifests or unpack.ErrTooLarge, and name the file and the line. The package
// knows neither charts nor kustomizations.
package documents
