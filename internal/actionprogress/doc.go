// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actionprogress reports the current step of a running action in the status of its release. It knows the
// conditions of a HelmOpRelease, and not what an action does. Callers must not change or write the release while the
// action runs, and must stop the reports before they write its result.
package actionprogress
