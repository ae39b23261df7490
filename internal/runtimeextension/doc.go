// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtimeextension serves a Runtime Extension of Cluster API. With its hooks, Cluster API waits for releases
// before it deletes a Cluster, and before each step of an upgrade. The hooks read only the cache of the manager, decide
// with the functions of package clusterlife, and write nothing. The controller of Clusters records when the wait of a
// Cluster began. So each replica of the manager can answer.
package runtimeextension
