// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dryrun shows what an action would do, and changes nothing.
//
// [Engine] has the verbs: Render and RenderOffline render a release, Plan compares the rendering with the cluster,
// RenderUpgraded renders for the cluster after an upgrade of Kubernetes, and Present and Definitions read what the
// cluster has now. [AdoptionDifferences] says whether the adoption of a release would change it.
//
// # Contract
//
//   - The package writes no record and no object. The transport of a plan makes each write a dry run.
//   - A rendering is what the action would apply: it has the same values, capabilities, lookups and post-rendering.
//   - A [Result] and a plan contain the values of the release, also those from Secrets. Their errors do not.
package dryrun
