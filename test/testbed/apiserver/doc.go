// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver runs real Kubernetes control planes as local processes:
// one etcd and one kube-apiserver per Server, on loopback, with a certificate
// authority, RBAC and an audit log of their own, and on request
// kube-controller-manager, kube-scheduler and nodes that kwok simulates.
//
// Start returns a Server that answers. StopAPIServer and StartAPIServer, Hang
// and Resume, and Rotate make the troubles that clients must survive. Requests
// tells from the audit log who asked for what, so that tests can count.
package apiserver
