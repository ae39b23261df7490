// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownwrites determines whether the cache already shows all writes of the last passes over an object.
//
// A cache of the management cluster is some milliseconds behind the API server, and more when the API server is busy. A
// pass that reads an old state may miss a counted failure, create an object a second time, or compute a status from an
// old status. Therefore a reconciler does three things:
//
//   - it writes through [Writes.Client], with the context of [Writes.For],
//   - it calls [Writes.Wait] before it reads anything, and
//   - it is requeued after the returned wait, if there is one.
//
// No call blocks a worker. In this it differs from the read-your-writes option of controller-runtime: see
// docs/design.md.
package ownwrites
