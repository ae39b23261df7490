// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownwrites answers one question: does the cache show everything that the last passes over an object wrote?
//
// A cache of the management cluster lags behind the API server by some milliseconds, more when the API server is busy.
// A pass that reads an older state decides without a failure that was counted, creates an object a second time, or
// writes a status that is made from an older one. So a reconciler does three things:
//
//   - it writes through [Writes.Client], with the context of [Writes.For],
//   - it asks [Writes.Wait] before it reads anything, and
//   - it reconciles after the wait if there is one.
//
// Nothing blocks and no worker is held, unlike with the read-your-writes option of controller-runtime: see
// docs/design.md.
package ownwrites
