// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifestweight"
)

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
