// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasehealth assesses the health of a release from the state of its objects, and sets the condition Healthy
// and status.health of its HelmOpRelease. Package health decides about the objects; this package decides which states
// count: those from before the last action do not, and a state that the watches do not show is not known.
//
// It sends no request, and knows neither watches nor actions. Callers keep one [Memory] for each release, call
// [Memory.Begin] after each action that deployed a revision, and record an Event about a [Change].
package releasehealth
