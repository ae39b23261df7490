// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unpack reads the files of artifacts, which may be hostile, within limits.
//
// [Chart], [Image] and a [Tree] return the files of a packed chart, of a container image, and of packed folders, lists
// of Fleet and single files. [Weigh] measures a text before a parser expands it.
//
// # Contract
//
//   - [Limits] apply to the artifact as a whole, including all layers and packed subcharts: packed size, unpacked size,
//     file size, number of files, depth of packed subcharts, and all unzipped bytes including padding.
//   - A name never leads out of the artifact. Links and devices are refused where their absence would change what is
//     installed.
//   - An error has the kind ErrInvalidChart, ErrInvalidManifests, ErrUnsupported or ErrTooLarge, and names the entry.
//
// The package writes nothing to disk. It does not parse the files: callers must weigh a text before they parse it.
package unpack
