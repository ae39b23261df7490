// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import "helm.sh/helm/v3/pkg/chart"

// Chart is a loaded chart. With the alias, other packages can pass charts without importing the Helm SDK.
type Chart = chart.Chart
