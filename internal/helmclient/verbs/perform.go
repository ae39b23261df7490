// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// verb is one action on one release.
type verb struct {
	*session.Session
	session.Job
	tests []model.TestResult
	// assumed means that the action assumes that the release has no records, see [decide.Decision].Assumed.
	assumed bool
}

// Check makes all checks of a job that need no cluster. It checks the chart and the values.
func Check(ctx context.Context, renderer *rendering.Renderer, j session.Job) error {
	if !j.Decision.Action.RendersChart() {
		return nil
	}
	if err := rendering.CheckChart(j.Chart); err != nil {
		return err
	}
	// The upgrade merges these values with the previous values, so they cannot be validated yet.
	upgrades := !j.Decision.Action.Installs()
	merges := upgrades && j.Options.Upgrade.Values != model.ValuesReset
	if merges || j.Options.SkipsSchema(j.Decision.Action) {
		return nil
	}
	return renderer.CheckValues(ctx, j.Source(j.Values))
}

// Perform carries out the action of a job. It returns the results of the tests that ran, even with an error. If the
// recovery of the decision is [decide.RecoverFail], the caller must call [MarkFailed] before, in another session.
func Perform(open *session.Session, j session.Job) ([]model.TestResult, error) {
	s := &verb{Session: open, Job: j}
	if s.Cluster != nil {
		s.Cluster.Recorded = s.checkRecordExists
		if j.Options.Progress != nil {
			s.Cluster.Progress = j.Options.Progress
		}
		if j.Decision.Action != model.ActionUninstall {
			s.Cluster.Stop = j.Options.Stop
			s.Records.KeepOldRecords()
		}
	}
	err := s.perform()
	return s.tests, err
}

func (s *verb) perform() error {
	if s.Decision.Recovery == decide.RecoverReplace {
		if err := s.hidePending(); err != nil {
			return err
		}
	}
	s.Storage.Labels = records.AttemptLabels(s.Desired, s.Decision)
	if s.Decision.Keep > 0 && s.Decision.Action != model.ActionUninstall {
		s.Storage.Kept = records.NameOf(s.Desired.Name, s.Decision.Keep)
	}
	var err error
	switch s.Decision.Action {
	case model.ActionUninstall:
		return s.uninstall()
	case model.ActionInstall, model.ActionRecoverThenInstall:
		err = s.install()
	case model.ActionAdopt:
		err = s.adopt()
	case model.ActionRollback:
		err = s.rollback()
	case model.ActionTest:
		err = s.test()
	default:
		err = s.upgrade()
	}
	if err != nil {
		return err
	}
	return s.checkRecorded(release.StatusDeployed)
}
