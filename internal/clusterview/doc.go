// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterview reads Clusters and the objects that templates can use: the Cluster itself, its control-plane and
// infrastructure objects, and its ClusterClass. It also reads whether Cluster API publishes the plans of upgrades, see
// [Reader.PublishesPlans], and reads kubeconfigs, and refuses unsafe ones: see [SafeKubeconfigs]. It writes nothing and
// does not connect to workload clusters. Callers must not change the objects that it returns: the cache shares them.
package clusterview
