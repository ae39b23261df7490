// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet has the commands of "kubectl helmop" that look at a fleet and steer it.
//
// The commands read the objects of the management cluster and write only fields and annotations of HelmOps and
// HelmOpReleases that the API documents. The rights of the user decide what they can read and write. What they show and
// decide is computed by pure functions: see stateOf, fold, nextForHelmOp and the functions in requests.go.
package fleet
