// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package async runs tasks in the background for reconcilers: a worker waits for a moment, and if the task takes
// longer, its object is enqueued again when the outcome is known. A task with the same key runs once for all that ask
// for it.
package async
