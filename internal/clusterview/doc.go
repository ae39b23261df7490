// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterview reads Clusters and the objects that templates can use: the Cluster itself, its control-plane and
// infrastructure objects, and its ClusterClass. It also reads kubeconfigs, and refuses kubeconfigs that must not be
// used.
package clusterview
