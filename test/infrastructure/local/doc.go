// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package local is a Cluster API provider for infrastructure and control
// planes, to the v1beta2 contracts, whose clusters are processes of the machine
// at hand: for each LocalControlPlane it starts a real etcd and kube-apiserver
// on loopback, and stops them when the object is deleted.
//
// The provider runs inside the process that calls New and Start. It keeps
// nothing on disk that survives Stop: a control plane whose provider is started
// anew begins empty.
package local
