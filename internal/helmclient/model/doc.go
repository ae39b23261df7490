// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model has the types that the packages of the Helm engine share. They describe the cluster and the release
// ([Target], [Access], [Desired]), the observed state ([Observation], [Record]), and how to act ([Policy], [Options],
// [Storage], [Action]).
//
// The package does not access a cluster. It defines the labels on Helm's release records, see labels.go. Helm stores
// each revision in a Secret. The labels hold the owner of the release, the UID of the object that requested the
// revision, and the digests of the artifact, the values, the options and the post-rendering. They also hold the
// revision, the number of failed attempts at the same state, the source of a rollback, and the result of the tests.
//
// When a person runs `helm upgrade` or `helm rollback`, Helm copies custom labels from the current revision to the
// next. The label with the revision then differs from Helm's own label `version`. So the engine did not create this
// revision, and its other labels have no meaning.
package model
