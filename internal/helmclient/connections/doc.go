// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections holds the connections to workload clusters and the kinds that these clusters serve.
//
// A [Pool] has the state of one cluster for each key of a [model.Target], with a [Connection] for each user. Each
// request has a deadline and each response a size limit, because Helm passes no context to its requests. All callers
// and users share the result of discovery, which actions use for up to a minute. If Helm reads an object twice within a
// second in one action, the second read uses the first response (readcache.go). This ends with a write to the object or
// with a hook.
//
// The package has no knowledge of releases. It only holds the caches that all releases of a cluster share. Callers must
// always use the same key for the same cluster.
package connections
