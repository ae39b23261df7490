// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// upgrade creates a new Helm revision of the release from chart and values.
func (s *verb) upgrade() error {
	options := s.Options.Upgrade
	if err := s.checkNewest(); err != nil {
		return err
	}
	values, isPublic, err := s.UpgradeValues(s.Job)
	if err != nil {
		return err
	}
	s.Storage.Labels = records.AttemptLabels(s.Desired, s.Decision).WithPublicValues(isPublic)
	if options.Values != model.ValuesReset {
		// Check cannot validate the merged values, so validate them here.
		if !options.DisableSchemaValidation {
			if err := s.Renderer.CheckValues(s.Ctx, s.Source(values)); err != nil {
				return err
			}
		}
	}
	renderer, err := s.prepare(values, true)
	if err != nil {
		return err
	}
	last, err := s.lastSettled()
	if err != nil {
		return err
	}
	// The API server may quote the objects that it does not change.
	s.HideFormer(last, values)
	rendered, err := s.Render(s.Source(values), chartutil.ReleaseOptions{
		Name: s.Desired.Name, Namespace: s.Desired.Namespace, Revision: last.Version + 1, IsUpgrade: true,
	})
	if err != nil {
		return err
	}
	if err := s.FindLeftovers(s.Decision, s.Desired); err != nil {
		return err
	}
	s.GuardUnowned(&s.Options)
	s.admitLoss()
	upgrade := s.newUpgrade(s.Desired, options)
	upgrade.PostRenderer = renderer
	if s.Decision.State == model.StateForeign {
		s.Storage.Created = s.checkNotUninstalledMeanwhile
	}
	_, err = upgrade.Run(s.Desired.Name, rendered, values)
	return err
}

// newUpgrade returns Helm's upgrade action with the options.
func (s *verb) newUpgrade(desired model.Desired, options model.UpgradeOptions) *action.Upgrade {
	upgrade := action.NewUpgrade(s.Config)
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
	// The values are complete. Without this option, Helm uses the previous values if the new values are empty.
	upgrade.ResetValues = true
	upgrade.SkipSchemaValidation = true
	return upgrade
}

// lastSettled returns the newest revision. It returns the errors that Helm's upgrade would return.
func (s *verb) lastSettled() (*release.Release, error) {
	last, err := s.Config.Releases.Last(s.Desired.Name)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
		return nil, driver.NewErrNoDeployedReleases(s.Desired.Name)
	case err != nil:
		return nil, err
	case last.Info != nil && last.Info.Status.IsPending():
		return nil, helmerr.New(helmerr.ErrStale, "another operation (install/upgrade/rollback) is in progress")
	}
	return last, nil
}
