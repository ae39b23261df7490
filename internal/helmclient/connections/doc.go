// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections holds the connections to workload clusters, and the kinds that these clusters serve.
//
// A [Pool] has the state of one cluster for each key of a [model.Target], with a [Connection] for each user. Each
// request has a deadline and each response a size limit, because Helm passes no context to its requests. All callers
// and users share the result of discovery, which actions use for up to a minute. Within one action, an object that Helm
// reads twice within a second is read once (readcache.go). A write to the object, or a hook, ends this.
//
// The package is about clusters, not about releases. It only holds the caches that all releases of a cluster share. The
// same key must always identify the same cluster.
package connections
