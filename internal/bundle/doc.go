// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundle knows what the bytes of an artifact mean. It does not know
// where they came from: it is told what the manifest says and given a function
// that reads a layer. Whatever the artifact is, what comes out is a chart for
// Helm: of manifests, one is made.
//
// # Contract
//
//   - Detect tells from a manifest alone what an artifact is and which layers
//     matter, so that the wrong thing is refused before anything is pulled. A caller
//     that knows better names the format, or selects a layer by its type.
//   - Callers of Loader.Chart share one chart, which they must not change. Helm changes
//     charts while it processes dependencies and values: whoever gives a chart to Helm
//     copies it first. The Helm engine does.
//   - A chart is unpacked and parsed once per digest, and per what is selected, as
//     long as the cache, which is limited in bytes of memory, holds it.
//   - Objects of manifests come out of Helm as they went in, whatever their texts look
//     like, unless templates are asked for. Each has a template of its own, named after
//     it; CustomResourceDefinitions are in the folder crds. Lists are taken apart.
//   - Nothing is written to disk, nothing is fetched and no program is run: kustomizations
//     that name anything outside of the artifact are refused before they are built.
//   - Compressed size, unpacked size, size of a file, number of files, depth of packed
//     subcharts, and what is unzipped in all, be it file or padding, are limited for the
//     artifact as a whole, all layers and packed subcharts included. So is the YAML that
//     is parsed, by its size and its number of values once aliases are followed and bases
//     of kustomizations are repeated, before any of it is; few parses run at a time.
//   - Errors are ErrUnsupported, ErrInvalidChart, ErrInvalidManifests, ErrTooLarge or ErrLimit,
//     with text that names the entry at fault, and its line. What the read function
//     returns is passed on.
package bundle
