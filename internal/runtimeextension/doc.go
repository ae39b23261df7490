// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtimeextension serves a Runtime Extension of Cluster API. Its hooks make Cluster API wait for releases
// before it deletes a Cluster, and before each step of an upgrade. The hooks read only the cache of the manager, decide
// with the functions of package clusterlife, and write nothing: the controller of Clusters records since when a Cluster
// waits. So each replica of the manager can answer.
package runtimeextension
