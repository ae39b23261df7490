// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runningactions stops the running action of a release when its HelmOpRelease is deleted. It starts no actions.
// It reads HelmOpReleases and their HelmOps to decide whether an action may be stopped. Callers must register an action
// before they check whether the HelmOpRelease still exists: otherwise a deletion between the check and the registration
// would be missed.
package runningactions
