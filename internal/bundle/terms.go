// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
)

// Chart is a loaded chart. Other packages use this alias to pass charts without an import of the Helm SDK.
type Chart = chart.Chart

// Limits are the largest sizes and numbers of the contents of an artifact. A field with the value 0 means the default.
type Limits = unpack.Limits

// The errors of this package. Compare them with errors.Is.
var (
	ErrUnsupported      = unpack.ErrUnsupported
	ErrInvalidChart     = unpack.ErrInvalidChart
	ErrInvalidManifests = unpack.ErrInvalidManifests
	ErrTooLarge         = unpack.ErrTooLarge
	ErrLimit            = unpack.ErrLimit
)
