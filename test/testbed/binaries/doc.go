// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binaries finds, downloads or builds the programs that the test bed runs: etcd, the Kubernetes control plane,
// kubectl, Cluster API's core manager, clusterctl, the CNCF Distribution registry and kwok.
//
// Ensure is the only entry point. It looks for every program in the user's cache folder. The name contains the version,
// and a hash of the go.mod that pins the version. A second call only reads the cache folder. A missing program is taken
// from KUBEBUILDER_ASSETS (etcd, kube-apiserver and kubectl only), downloaded if the exact version is published with a
// checksum, or built from its Go module. Versions are only in hack/tools/testbed/go.mod.
package binaries
