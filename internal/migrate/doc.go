// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate converts objects of other tools into HelmOps: HelmChartProxies of the Cluster API add-on provider for
// Helm (CAAPH), HelmReleases of Flux, HelmOps of Fleet, and plain Helm releases.
//
// # Contract
//
//   - All functions are pure: the same objects give the same Plan. They use no client. Callers read the objects, show
//     the Plan to the user, and write the HelmOps.
//   - A HelmOp of a Plan adopts the existing releases: it has the same chart, values, options, release names and
//     namespaces as the object that it replaces.
//   - A setting that a HelmOp cannot express becomes a Gap of the Item. The user must resolve a Gap that Blocks before
//     the migration.
//   - The types for the objects of other tools have only the fields that the package reads. The package ignores all
//     other fields.
package migrate
