// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dryrun shows the changes that an action would make, and makes none. Package verbs carries out the actions.
// [Engine] has these methods:
//
//   - Render and RenderOffline render a release.
//   - RenderUpgraded renders a release for its cluster after an upgrade of Kubernetes.
//   - Plan compares a rendering with the cluster. It uses the decisions of package apply (planner.go).
//   - Present and Definitions read the release and the CustomResourceDefinitions that the cluster has now.
//
// [AdoptionDifferences] returns the changes that the adoption of a release would make.
//
// # Contract
//
//   - The package writes no record and no object. The transport of a plan makes each write a dry run.
//   - A rendering is equal to the rendering of the action: it has the same values, capabilities, lookups and
//     post-rendering.
//   - A [Result] and a plan contain the values of the release, also values from Secrets. The caller must protect them.
//     Errors do not contain values.
package dryrun
