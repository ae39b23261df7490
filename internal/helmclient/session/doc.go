// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package session connects Helm with one release of one cluster, for one action or one read. The package carries out no
// actions: package verbs changes releases, and package dryrun shows changes.
//
// A [Session] holds the parts that Helm's actions need: the records, the client of the cluster and the renderer. Its
// methods read the history, the values and the namespaces of a release. They also render, and find the objects of
// failed revisions that are still in the cluster. They write nothing.
//
// A session serves one action at a time. The caller must call [Session.Close] after a session that only reads.
package session
