// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package async runs tasks in the background for reconcilers. A worker waits for a task for a short time. If the task
// takes longer, the worker continues, and the object is enqueued again when the result is available. Objects that
// request the same key share one task.
//
// A task is a function of the caller. The package does not retry a failed task: callers do. Callers must add the source
// of their [Waker] to their controller. They must not run a task before the source has started.
package async
