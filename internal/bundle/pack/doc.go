// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pack makes artifacts of folders and charts: the reverse of package bundle, which reads them. It reads the file system and
// nothing else; who pushes what it made is somebody else's matter.
//
// # Contract
//
//   - Equal content gives equal bytes, and so an equal digest, on every machine: files are in the order of their names, without owners
//     and times, with the modes 0644 and 0755, and nothing says when it was packed unless Options.Created does. How gzip packs may
//     change between versions of Go; the digest then changes with the version of this program.
//   - Each format is what its own tools make and read, see bundle.Format.
//   - Links, devices and what else is no file and no folder are errors: they would mean something else where they are unpacked.
//   - Everything is held in memory, within Options.MaxBytes.
package pack
