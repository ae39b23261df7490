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

// Package bundle knows what the bytes of an artifact mean. It does not know
// where they came from: it is told media types and given a function that reads
// a layer. Today an artifact is a Helm chart; plain manifests and others become
// further kinds in Detect and further cases where Loader looks at the kind.
//
// # Contract
//
//   - Detect tells from a manifest's media types alone what an artifact is, so
//     that the wrong thing is refused before anything is pulled. A caller that
//     knows better selects a layer by its type; that layer is a packed chart then.
//   - Loader.Chart hands out a chart of the caller's own: Helm changes charts
//     while it processes dependencies and values, and the next caller must not
//     see that. Only the bytes of files are shared; they must not be changed.
//   - A chart is unpacked and parsed once per digest as long as the cache, which
//     is limited in bytes of memory, holds it. Later callers pay for a copy, which costs
//     less than a tenth of parsing buffered files again (see the benchmark).
//   - Nothing is written to disk. Compressed size, unpacked size, size of a file,
//     number of files, depth of packed subcharts, and what is unzipped in all, be
//     it file or padding, are limited for the archive as a whole, packed subcharts
//     included. So is the YAML that is parsed, by its size and its number of values
//     once aliases are followed, before any of it is; few parses run at a time.
//   - Errors are ErrNotAChart, ErrInvalidChart or ErrTooLarge, with text that
//     names the entry at fault. What the read function returns is passed on.
package bundle
