// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubestatemetrics tests the configuration of config/kube-state-metrics with the library of kube-state-metrics.
// It has only tests. It is a separate module, so that HelmOp does not depend on kube-state-metrics.
package kubestatemetrics
