// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unpack reads the files of artifacts within limits. Artifacts may be hostile. The package writes nothing to
// disk. It does not parse the files: the caller must weigh a text before it parses the text.
//
// [Chart] returns the files of a packed chart. [Image] returns the files of a container image. A [Tree] holds the files
// of packed folders, of Fleet's lists, and single files. [Weigh] measures a text before a parser expands it.
//
// # Contract
//
//   - [Limits] apply to the whole artifact, with all layers and packed subcharts: packed size, unpacked size, size of a
//     file, number of files, depth of packed subcharts, and all decompressed bytes including padding.
//   - A [Memory] reserves memory before a file is read: a few packed KiB may unpack to 100 MiB. It also reserves memory
//     before a text with aliases is weighed. The caller must reserve memory before it parses a text.
//   - The name of a file never leads out of the artifact.
//   - A chart may contain links and devices that Helm does not install, for example in a folder docs. They are skipped.
//     Other links and devices are refused.
//   - An error has the kind ErrInvalidChart, ErrInvalidManifests, ErrUnsupported or ErrTooLarge, and names the entry.
package unpack
