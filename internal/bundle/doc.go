// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundle converts artifacts to Helm charts. The package chooses the files of an artifact by its format, and
// parses, generates and caches charts. It sends no requests to registries: the caller passes the manifest and
// a function that reads a layer. The caller limits the time of each read.
//
// Each package below has one duty. It uses only packages above it in this list:
//
//   - unpack: the files of an artifact, within limits
//   - documents: the objects in files
//   - kustomize: kustomizations, checked and built
//
// # Contract
//
//   - Detect reads only the manifest to find the format and the layers with content. An unsupported artifact is refused
//     before a layer is pulled. The caller can override the format, or select a layer by its media type.
//   - All callers of Loader.Chart share one chart and must not change it. Helm changes a chart while it processes
//     dependencies and values, so the caller must copy the chart before it passes the chart to Helm. Package helmclient
//     copies the chart.
//   - A Loader unpacks and parses each digest and selection once, as long as the chart is cached. The cache has a limit
//     in bytes. Tenants share the cache, but not a parse that has not ended: a tenant does not wait for the parses of
//     other tenants. So several tenants may parse the same artifact at the same time.
//   - For an artifact with manifests, the package generates a chart. Helm renders the objects unchanged, unless
//     templates are enabled. Each object has its own template, named after the object. CustomResourceDefinitions are in
//     the folder crds. A list is split into its objects.
//   - The package writes nothing to disk, sends no requests and runs no programs. It refuses a kustomization that
//     refers to content outside of the artifact before the kustomization is built.
//   - The limits apply to the whole artifact, see package unpack. YAML has limits for its size and its number of
//     values. Both count expanded aliases and repeated bases of kustomizations, and are checked before the YAML is
//     parsed. The number of concurrent parses is limited.
//   - Errors are ErrUnsupported, ErrInvalidChart, ErrInvalidManifests, ErrTooLarge or ErrLimit. Their text names the
//     file and the line. Errors of the read function are returned unchanged.
package bundle
