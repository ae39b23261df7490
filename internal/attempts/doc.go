// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attempts counts the attempts to bring a release to its desired state. It records each action in the status of
// the release: its result, the history and the number of failures. From the status, it returns the input for the
// decision about the next action: the results of earlier attempts, and whether a user requests a retry.
//
// It changes only the status in memory: callers write the status. It does not run actions and does not decide about
// them. Callers must record each action that ran, also an action that failed.
package attempts
