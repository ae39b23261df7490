// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package session connects Helm with one release of one cluster, for one action or one read.
//
// A [Session] holds what Helm's actions need: the records, the client of the cluster and the renderer. The verbs, which
// change a release, and the dry runs, which change nothing, both begin with a session. Its methods only read: the
// history, the values and the namespaces of a release. They render, and find the objects that failed revisions left
// behind.
//
// A session serves one action at a time. The caller must call [Session.Close] after a session that only reads. The
// package does not decide what is done, and calls no action of Helm that writes.
package session
