// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import "helm.sh/helm/v3/pkg/chart"

// ReadMetadata returns the metadata of a packed chart. It returns ErrInvalidChart or ErrTooLarge for charts that a
// Loader with the default limits would refuse.
func ReadMetadata(packed []byte) (*chart.Metadata, error) {
	limits := Limits{}.withDefaults()
	files, _, err := unpack(packed, limits)
	if err != nil {
		return nil, err
	}
	c, err := parse(files, limits)
	if err != nil {
		return nil, err
	}
	return c.Metadata, nil
}
