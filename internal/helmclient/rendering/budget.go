// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifestweight"
)

// MaxRecordValues bounds the number of JSON values in the record of a release. A value may take hundreds of bytes in
// memory, so 64 MiB of "{}," would take gigabytes. A manifest, a template and a file are one value each. The largest
// charts have some thousands of other values, and one MiB of short values has fewer than MaxRecordValues.
const MaxRecordValues = 250_000

// takeManifests adds the manifests in a file to a budget. It returns an error of the kind [ErrInvalidChart] if the
// manifests exceed a limit, or must not be parsed.
func takeManifests(budget *manifestweight.Budget, name, text string) error {
	err := budget.Take(text)
	switch {
	case errors.Is(err, manifestweight.ErrTooLarge):
		return Errorf(ErrInvalidChart, "%s, from %s on: split the chart", err, name)
	case err != nil:
		return Errorf(ErrInvalidChart, "YAML parse error on %s: %s", name, err)
	}
	return nil
}
