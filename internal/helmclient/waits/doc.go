// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package waits has the waits of an action for objects: until hooks have ended, until deletions are complete, or as
// long as a function of Helm waits. Each wait ends when the action is stopped or loses its record ([Waiter.UntilStop]).
//
// The package only reads objects.
package waits
