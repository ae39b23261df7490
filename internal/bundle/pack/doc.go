// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pack creates artifacts from folders and charts. It is the counterpart of package bundle, which reads them. It
// reads the file system only; the caller pushes the result.
//
// # Contract
//
//   - The same content gives the same bytes and the same digest on every machine. Files are sorted by name, have no
//     owners and times, and have the modes 0644 and 0755. No time of packing is stored unless Options.Created is set.
//     The output of gzip may change between versions of Go, and with it the digest.
//   - Each format is compatible with its own tools, see bundle.Format.
//   - Links, devices and other special files are errors, because they would mean something else where they are
//     unpacked.
//   - Everything is held in memory, within Options.MaxBytes.
package pack
