// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections keeps the connections to workload clusters, and the kinds that these clusters serve.
//
// A [Pool] has one [Cluster] for each key of a [model.Target], with a connection for each identity that acts there.
// Each request has a deadline and each response a size limit, because Helm gives its requests no context. Discovery
// runs at most once a minute per cluster and is shared by all callers and identities. Within one action, an object that
// Helm reads twice within a second is read once (readcache.go); a write to the object, or a hook, ends that.
//
// It knows clusters but not releases, except for the caches that all releases of a cluster share. The same key must
// always identify the same cluster.
package connections
