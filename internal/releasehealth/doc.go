// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasehealth assesses the health of a release from the state of its objects, and sets the condition Healthy
// and status.health of its HelmOpRelease. Package health determines the health of the objects. This package decides
// which states count: it ignores states from before the last action, and treats states that the watches do not show as
// unknown.
//
// It sends no request. It does not watch objects and does not run actions. Callers must keep one [Memory] for each
// release, call [Memory.Begin] after each action that deployed a revision, and record an Event for a [Change].
package releasehealth
