// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attempts counts the attempts to bring a release to its desired state. It records each action in the status of
// the release: its result, the history and the number of failures. From the status, it returns what the decision about
// the next action needs: what happened before, and whether a user requests a retry.
//
// It changes only the status in memory: callers write the status. It knows results of actions, and not how an action is
// carried out or decided. Callers record each action that ran, also one that failed.
package attempts
