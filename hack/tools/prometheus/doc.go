// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prometheus tests the alerts and the queries of the dashboard with the code of Prometheus itself. It has only
// tests. It is a separate module, so that the product does not depend on Prometheus.
package prometheus
