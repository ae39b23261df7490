// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate turns objects of other tools into HelmOps: HelmChartProxies of the Cluster API add-on provider for
// Helm (CAAPH), HelmReleases of Flux, HelmOps of Fleet, and plain Helm releases.
//
// # Contract
//
//   - All functions are pure: the same objects give the same Plan. They use no client.
//   - A HelmOp of a Plan adopts the existing releases: it has the same chart, values, options, release names and
//     namespaces as the object that it replaces.
//   - What a HelmOp cannot express is a Gap of its Item. A Gap that Blocks must be solved before the migration.
//   - The types of the other tools have the fields that the package reads, and no others. Unknown fields are ignored.
package migrate
