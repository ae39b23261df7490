// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundle interprets the content of artifacts. It does not know where the content comes from: callers pass the
// manifest and a function that reads a layer. The result is always a Helm chart. For artifacts with manifests, the
// package generates one.
//
// Each room below has one duty, and uses only rooms above it in this list:
//
//   - unpack: the files of an artifact, within limits
//   - documents: the objects in files
//   - kustomize: kustomizations, checked and built
//
// This package knows the formats, chooses the files, and parses, generates, caches and renders charts.
//
// # Contract
//
//   - Detect determines the format and the relevant layers from the manifest alone, so that unsupported artifacts are
//     refused before anything is pulled. Callers can override the format, or select a layer by its type.
//   - Callers of Loader.Chart share one chart, which they must not change. Helm changes charts while it processes
//     dependencies and values, so callers must copy the chart before they pass it to Helm. The Helm engine does.
//   - A chart is unpacked and parsed once per digest and selection while the cache holds it. The cache is limited in
//     bytes of memory.
//   - Helm renders objects of manifests unchanged, whatever their texts look like, unless templates are enabled. Each
//     object has its own template, named after it. CustomResourceDefinitions are in the folder crds. Lists are split
//     into their objects.
//   - The package writes nothing to disk, fetches nothing and runs no programs. Kustomizations that refer to anything
//     outside of the artifact are refused before they are built.
//   - Limits apply to the artifact as a whole, see package unpack. Parsed YAML is limited in size and number of values,
//     counted after following aliases and repeating the bases of kustomizations, before any of it is parsed. Few parses
//     run at the same time.
//   - Errors are ErrUnsupported, ErrInvalidChart, ErrInvalidManifests, ErrTooLarge or ErrLimit. Their text names the
//     entry and the line. Errors of the read function are passed on.
package bundle
