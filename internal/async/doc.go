// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package async runs tasks in the background for reconcilers. A worker waits for a task for a short time. If the task
// takes longer, its object is enqueued again when the result is available. A task with the same key runs once for all
// objects that request it.
package async
