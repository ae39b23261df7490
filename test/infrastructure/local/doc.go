// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package local is a Cluster API provider for infrastructure and control planes, to the v1beta2 contracts. Its clusters
// are processes on this machine. For each LocalControlPlane it starts a real etcd and kube-apiserver on loopback, and
// stops them when the object is deleted.
//
// The provider runs inside the process that calls New and Start. Stop deletes its data: after a restart of the
// provider, a control plane begins empty.
package local
