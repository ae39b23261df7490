// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers sets up the controllers of HelmOps, HelmOpReleases and Clusters, and the readers and caches that
// the controllers share. Each controller has its own package.
//
// The controllers read and write Kubernetes objects, conditions and Events, and call other packages in the right order.
// They do not use the Helm SDK or the protocol of registries. Only the HelmOp controller writes the spec of a
// HelmOpRelease. Only the HelmOpRelease controller sends requests to a workload cluster.
//
// A pass that changes nothing reads only caches. For a release, it also reads the metadata of the Secrets in which Helm
// stores the release. This is its only request to the workload cluster.
package controllers
