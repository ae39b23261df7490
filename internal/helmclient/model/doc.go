// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model has the types that the rooms of the Helm engine share: the cluster and the release that are meant ([Target], [Desired]), what was
// observed ([Observation], [Record]), and how to act ([Policy], [Options], [Storage], [Action]).
//
// It reads and writes no cluster. It knows the labels on Helm's release records, and what they mean, see labels.go: Helm keeps each revision
// in a Secret. The labels say who owns the release, the digests of the artifact, the values, the options and the post-rendering that the revision
// was made from, the revision, and the UID of the object that asked; how many tries at the same had failed before; what a rollback
// returned from; how the tests ended.
//
// Helm copies custom labels from the current revision to the next when a person runs `helm upgrade` or `helm rollback`. The label with the
// revision then differs from Helm's own label `version`: that revision was not made by this engine, and the labels on it mean nothing.
package model
