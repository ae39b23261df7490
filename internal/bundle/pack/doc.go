// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pack creates artifacts from folders and charts. Package bundle reads these artifacts. Package pack only reads
// the file system. The caller pushes the result.
//
// # Contract
//
//   - The same content gives the same bytes and the same digest on every machine. Files are sorted by name, have no
//     owners and times, and have the modes 0644 and 0755. The time of packing is stored only if Options.Created is set.
//     The output of gzip, and so the digest, may change between versions of Go.
//   - Each format is compatible with its own tools, see bundle.Format.
//   - Links, devices and other special files are errors, because they would have another meaning where the artifact is
//     unpacked.
//   - The package holds everything in memory, within Options.MaxBytes.
package pack
