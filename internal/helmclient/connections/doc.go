// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections keeps the connections to workload clusters, and what these clusters serve.
//
// A [Pool] has one [Cluster] for each key of a [model.Target], with a connection for each identity that acts there. Each request has a deadline
// and each answer a limit of its size, because Helm gives its requests no context. What a cluster serves is read once a minute at most,
// and once for all callers; releases in one cluster share it, whoever they act as. Within one action, an object that Helm
// reads twice within a second is read once (readcache.go); a write to it, or a hook that runs, ends that.
//
// It knows clusters and nothing of releases, but for the caches that all releases of a cluster share.
package connections
