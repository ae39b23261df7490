// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// upgrade creates a new revision of the release from chart and values.
func (s *session) upgrade(j job) error {
	options := j.options.Upgrade
	if err := s.checkNewest(j.decision, j.desired); err != nil {
		return err
	}
	values, err := s.upgradeValues(j.desired, options.Values, j.values)
	if err != nil {
		return err
	}
	if options.Values != model.ValuesReset {
		// job.check cannot validate the merged values, so they are validated here.
		if !options.DisableSchemaValidation {
			if err := s.renderer.CheckValues(s.context(), sourceOf(j.desired, j.chart, values)); err != nil {
				return err
			}
		}
	}
	renderer, err := s.prepare(j.desired, j.options, j.chart, values, true)
	if err != nil {
		return err
	}
	revision, err := s.nextRevision(j.desired.Name)
	if err != nil {
		return err
	}
	rendered, err := s.render(j.desired, j.chart, values, chartutil.ReleaseOptions{
		Name: j.desired.Name, Namespace: j.desired.Namespace, Revision: revision, IsUpgrade: true,
	})
	if err != nil {
		return err
	}
	if err := s.findLeftovers(j.decision, j.desired); err != nil {
		return err
	}
	if s.cluster != nil && options.TakeOwnership {
		s.cluster.OnlyOwned = false // The user wants objects without the annotations of the release, too.
	}
	s.admitLoss(j)
	upgrade := s.newUpgrade(j.desired, options)
	upgrade.PostRenderer = renderer
	if j.decision.State == model.StateForeign {
		s.storage.Created = func() error { return s.checkNotUninstalledMeanwhile(j.decision, j.desired) }
	}
	_, err = upgrade.Run(j.desired.Name, rendered, values)
	return err
}

// newUpgrade returns Helm's upgrade action with the options.
func (s *session) newUpgrade(desired model.Desired, options model.UpgradeOptions) *action.Upgrade {
	upgrade := action.NewUpgrade(s.config)
	upgrade.Namespace = desired.Namespace
	upgrade.SkipCRDs = true
	upgrade.Labels = model.DesiredLabels(desired)
	upgrade.Timeout = options.ActionTimeout()
	upgrade.DisableHooks = options.DisableHooks
	upgrade.Force = options.Force
	upgrade.MaxHistory = options.HistoryLimit()
	upgrade.CleanupOnFail = options.CleanupOnFail
	upgrade.TakeOwnership = options.TakeOwnership
	upgrade.DisableOpenAPIValidation = options.DisableOpenAPIValidation
	// The values are complete. Without this option, Helm reuses the previous values if the new values are empty.
	upgrade.ResetValues = true
	upgrade.SkipSchemaValidation = true
	return upgrade
}
