// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actionmemory divides the memory for large releases among all actions: for the records that an action reads
// and writes, the rendered chart, and the parsed manifests and CRDs. Small ones are not counted.
//
// An action has one [Lease]. It knows how much it needs only after it has read the records and rendered the chart.
// Two actions that hold memory and wait for more could wait for each other. So an action never waits while it holds
// memory and has changed nothing: it ends, gives all its memory back, waits until what it needed so far is free, and
// begins again. See [Budget.Do].
//
// The tenant of an owner may hold a half of the memory, and one cluster a quarter. One action at a time may exceed
// these shares, up to the whole memory, because a release may need more than a share.
//
// The package only counts. It does not read, render or parse. Callers must reserve memory before they use it, and must
// keep nothing large after they have released the Lease.
package actionmemory
