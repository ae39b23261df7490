/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
