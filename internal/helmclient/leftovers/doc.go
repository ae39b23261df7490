// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leftovers finds the objects and fields that failed Helm revisions left behind. Helm compares an upgrade only
// with the deployed revision, and a rollback or an uninstallation only with the newest revision. So it ignores the
// objects of failed revisions between them.
//
//   - [Unchecked] chooses these revisions from a history (history.go). The caller reads their manifests into
//     [Leftovers].
//   - [Objects] has the objects of these revisions, and decides which objects the revisions have created (objects.go).
//   - [Objects.Baselines] decides which fields of an object the revisions have set (baseline.go).
//
// The package sends no request. Package apply deletes the objects and reverts the fields.
package leftovers
