// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"strconv"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// recoverPending resolves the pending record that the decision is based on, so that Helm can act on the release again.
// It also resolves a record that the helm command could not uninstall. It marks the record as failed. If a new record
// will replace the old record, recoverPending only hides the old record in this session. The old record stays in the
// storage until the new record exists: it proves that an action began, and contains the objects that the action may
// have created.
func (s *verb) recoverPending() error {
	decision := s.Decision
	record, err := s.Config.Releases.Last(s.Desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return helmerr.New(helmerr.ErrStale, "the pending Helm revision %d no longer exists", decision.FromRevision)
	}
	if err != nil {
		return fmt.Errorf("reading the pending Helm revision %d: %w", decision.FromRevision, err)
	}
	if record.Version != decision.FromRevision {
		return helmerr.New(helmerr.ErrStale, "the newest Helm revision is %d and no longer the pending Helm revision %d",
			record.Version, decision.FromRevision)
	}
	if err := s.checkSameRecord(); err != nil {
		return err
	}
	if record.Info == nil || !record.Info.Status.IsPending() && record.Info.Status != release.StatusUninstalling {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d is no longer pending", decision.FromRevision)
	}
	if decision.Recovery == decide.RecoverReplace {
		s.Storage.Hide(records.NameOf(s.Desired.Name, record.Version), record.Version)
		return nil
	}
	record.SetStatus(release.StatusFailed, "Interrupted")
	if record.Labels[model.LabelRevision] == strconv.Itoa(record.Version) {
		record.Labels[model.LabelInterrupted] = "true"
	}
	if err := s.Config.Releases.Update(record); err != nil {
		return fmt.Errorf("recovering the pending Helm revision %d: %w", decision.FromRevision, err)
	}
	// A recovery does not count as an attempt to reach the desired state.
	s.Storage.Restart()
	return nil
}
