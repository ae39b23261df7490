// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drifttracking finds out whether the objects of a release differ from what the release installed, and corrects
// them. It writes the result into status.drift and the condition Drifted. Package drift compares and corrects single
// objects. Package driftmemory records which objects are due.
//
// It sends requests only for objects that changed since their last comparison, and only with a slot. A correction holds
// the lock of the release, and reads the newest record first: once for a batch of patches, and before each creation.
// The package does not decide whether differences are corrected: callers call [Pass.Correct] if the decision about the
// release says so. Callers must also record Events and write the status.
package drifttracking
