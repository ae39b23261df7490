// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers sets up the controllers of HelmOps, HelmOpReleases and Clusters, and the readers and caches that
// the controllers share. Each controller is a package of its own.
//
// The controllers use Kubernetes objects, conditions and Events, and call other packages in the right order. They use
// neither the Helm SDK nor the protocol of a registry. Only the HelmOp controller writes the spec of a HelmOpRelease.
// Only the HelmOpRelease controller sends requests to a workload cluster.
//
// A pass that changes nothing reads only caches. For a release, it also reads from the workload cluster the metadata of
// the Secrets in which Helm stores the release, and nothing else.
package controllers
