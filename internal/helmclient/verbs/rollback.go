// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"strconv"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// rollback rolls the release back to the Helm revision in Decision.RollbackTo.
func (s *verb) rollback() error {
	decision, desired, options := s.Decision, s.Desired, s.Options
	target, err := s.Config.Releases.Get(desired.Name, decision.RollbackTo)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d, the target of the rollback, no longer "+
			"exists", decision.RollbackTo)
	}
	if err != nil {
		return fmt.Errorf("reading Helm revision %d, the target of the rollback: %w", decision.RollbackTo, err)
	}
	s.HideValues(target)
	if err := s.checkNewest(); err != nil {
		return err
	}
	if err := s.FindLeftovers(decision, desired); err != nil {
		return err
	}
	if err := s.prepareStorage(); err != nil {
		return err
	}
	if decision.Returns {
		if err := checkReturn(target, desired); err != nil {
			return err
		}
		s.Storage.Labels = s.Storage.Labels.WithPublicValues(records.HasPublicValues(target))
		s.PrepareNamespace(desired, options.Install, false)
	} else {
		s.Storage.Labels = records.RollbackLabels(desired, decision).WithPublicValues(records.HasPublicValues(target))
	}
	s.admitLoss()
	last, err := s.Config.Releases.Last(desired.Name)
	if err != nil {
		return fmt.Errorf("reading the newest Helm revision: %w", err)
	}
	// An API server may quote the object that it does not change.
	s.HideValues(last)
	if err := s.Memory.Expect(append(session.TextsOf(target), session.TextsOf(last)...)...); err != nil {
		return err
	}
	if s.Cluster != nil {
		// The cluster must serve the kinds of the manifest.
		s.Cluster.Seen.ApplyAgain(decision.RollbackTo)
		// The record does not have the files of subcharts, and names only the subcharts that Chart.yaml declares.
		s.Cluster.KeepsCRD = func(string) bool { return true }
		s.Cluster.Restores, s.Cluster.RefusesOthers = true, !options.Upgrade.TakeOwnership
	}
	err = s.newRollback(decision, options).Run(desired.Name)
	if err != nil {
		s.markRollbackFailed()
	}
	return err
}

// checkReturn returns an error if the revision was not made from the desired state. The new record gets the labels of
// the desired state, so its content must match them.
func checkReturn(target *release.Release, desired model.Desired) error {
	if target.Labels[model.LabelRevision] != strconv.Itoa(target.Version) ||
		model.DigestsIn(target.Labels) != model.DigestsIn(model.DesiredLabels(desired)) {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d, the target of the rollback, was not made from the "+
			"desired release",
			target.Version)
	}
	return nil
}

// markRollbackFailed marks the record of a failed rollback as failed. If a hook failed, Helm does not change the
// pending status.
func (s *verb) markRollbackFailed() {
	newest := s.Storage.Newest()
	if newest == nil || newest.Info == nil || newest.Info.Status != release.StatusPendingRollback {
		return
	}
	newest.SetStatus(release.StatusFailed, "Rollback failed")
	if err := s.Config.Releases.Update(newest); err != nil {
		s.Logs.Printf("cannot record the failure of the rollback: %s", err)
	}
}

// newRollback returns Helm's rollback action with the options.
func (s *verb) newRollback(decision decide.Decision, options model.Options) *action.Rollback {
	rollback := action.NewRollback(s.Config)
	rollback.Version = decision.RollbackTo
	rollback.Timeout = options.Rollback.ActionTimeout()
	rollback.DisableHooks = options.Rollback.DisableHooks
	rollback.Force = options.Rollback.Force
	rollback.CleanupOnFail = options.Rollback.CleanupOnFail
	rollback.MaxHistory = options.Upgrade.HistoryLimit()
	return rollback
}
