// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// upgradeValues returns the values of an upgrade: the desired values, merged over the values of the previous Helm
// revision according to the policy. A null in the desired values removes a value, including a default of the chart.
// Helm's own merge drops the null and restores the default.
func (s *session) upgradeValues(desired model.Desired, policy model.ValuesPolicy,
	desiredValues map[string]any,
) (map[string]any, error) {
	desiredValues = rendering.CopyValues(desiredValues)
	if policy == model.ValuesReset {
		return desiredValues, nil
	}
	before, err := s.previous(desired.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the values of the previous Helm revision: %w", err)
	}
	given := rendering.CopyValues(before.Config)
	if policy == model.ValuesReuse && before.Chart != nil {
		given, err = chartutil.CoalesceValues(rendering.CopyChart(before.Chart), given)
		if err != nil {
			return nil, helmerr.New(helmerr.ErrInvalidChart, "the values of Helm revision %d cannot be computed", before.Version)
		}
	}
	s.logs.Hide(given)
	return chartutil.MergeTables(desiredValues, given), nil
}

// previous returns the revision that an upgrade starts from: the deployed revision, or the newest if none is deployed.
func (s *session) previous(name string) (*release.Release, error) {
	last, err := s.config.Releases.Last(name)
	if err != nil || last.Info != nil && last.Info.Status == release.StatusDeployed {
		return last, err
	}
	deployed, err := s.config.Releases.Deployed(name)
	if errors.Is(err, driver.ErrNoDeployedReleases) {
		return last, nil
	}
	return deployed, err
}
