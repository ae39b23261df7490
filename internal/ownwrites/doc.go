// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownwrites determines whether the cache shows everything that the last passes over an object wrote.
//
// A cache of the management cluster is behind the API server by some milliseconds, more when the API server is busy. A
// pass that reads an older state may overlook a failure that was counted, create an object a second time, or write a
// status that is computed from an older one. Therefore a reconciler does three things:
//
//   - it writes through [Writes.Client], with the context of [Writes.For],
//   - it calls [Writes.Wait] before it reads anything, and
//   - it is requeued after the returned wait, if there is one.
//
// No call blocks a worker, unlike with the read-your-writes option of controller-runtime: see docs/design.md.
package ownwrites
