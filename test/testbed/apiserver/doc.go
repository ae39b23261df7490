// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver runs real Kubernetes control planes as local processes on loopback. Each Server has one etcd and
// one kube-apiserver, and its own certificate authority, RBAC and audit log. On request, a Server also has the
// controllers that a cluster without nodes needs, or kube-controller-manager, kube-scheduler and nodes that kwok
// simulates.
//
// Start returns a Server that answers. StopAPIServer and StartAPIServer, Hang and Resume, and Rotate make the faults
// that clients must survive. Requests returns the requests of the audit log, so that tests can count the requests of a
// user.
package apiserver
