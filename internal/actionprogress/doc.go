// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actionprogress reports the current step of a running action in the status of its release. It does not run the
// action and does not decide about it. While the action runs, callers must not change or write the release, except in
// Pause. They must call Stop before they write the result of the action.
package actionprogress
