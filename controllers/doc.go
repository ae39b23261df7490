// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers sets up the controllers of HelmOps, HelmOpReleases and Clusters, which are packages of their own,
// and what they share.
//
// They know Kubernetes objects, conditions and Events and what to call in which order; they know neither the Helm SDK
// nor a registry's protocol. Nothing but the HelmOp controller writes the spec of a HelmOpRelease, and nothing but the
// HelmOpRelease controller talks to a workload cluster.
//
// An idle pass reads caches; for a release it asks the workload cluster for the metadata of the Secrets in which Helm
// stores it, and nothing else.
package controllers
