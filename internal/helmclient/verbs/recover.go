// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"strconv"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// MarkFailed marks the pending record that a decision is based on as failed, so that Helm can act on the release again.
// It also marks a record whose uninstallation did not complete. The mark does not count as a change of the storage
// by the action that follows. This action must use another session: the mark commits the memory of its session, see
// [actionmemory.Lease.Commit], before the action has reserved any.
func MarkFailed(open *session.Session, j session.Job) error {
	s := &verb{Session: open, Job: j}
	record, err := s.pendingRecord()
	if err != nil {
		return err
	}
	mayHaveWorked := records.IsUninstalling(record) && record.Labels[model.LabelNeverWorked] == ""
	record.SetStatus(release.StatusFailed, "Interrupted")
	if record.Labels[model.LabelRevision] == strconv.Itoa(record.Version) {
		record.Labels[model.LabelInterrupted] = "true"
		if mayHaveWorked {
			record.Labels[model.LabelMayHaveWorked] = "true"
		}
	}
	if err := s.Config.Releases.Update(record); err != nil {
		return fmt.Errorf("recovering the pending Helm revision %d: %w", record.Version, err)
	}
	return nil
}

// hidePending hides the pending record that the decision is based on in this session. The record stays in the storage
// until the new record replaces it: it proves that an action began, and contains the objects that the action may have
// created.
func (s *verb) hidePending() error {
	record, err := s.pendingRecord()
	if err != nil {
		return err
	}
	s.Storage.Hide(records.NameOf(s.Desired.Name, record.Version), record.Version)
	return nil
}

// pendingRecord returns the pending record that the decision is based on. The error is of the kind [helmerr.ErrStale]
// if it is no longer the newest record, or no longer pending.
func (s *verb) pendingRecord() (*release.Release, error) {
	revision := s.Decision.FromRevision
	record, err := s.Config.Releases.Last(s.Desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, helmerr.New(helmerr.ErrStale, "the pending Helm revision %d no longer exists", revision)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the pending Helm revision %d: %w", revision, err)
	}
	if record.Version != revision {
		return nil, helmerr.New(helmerr.ErrStale, "the newest Helm revision is %d and no longer the pending Helm revision %d",
			record.Version, revision)
	}
	if err := s.checkSameRecord(); err != nil {
		return nil, err
	}
	if err := checkOwner(record, s.Decision, s.Desired); err != nil {
		return nil, err
	}
	if record.Info == nil || !record.Info.Status.IsPending() && record.Info.Status != release.StatusUninstalling {
		return nil, helmerr.New(helmerr.ErrStale, "Helm revision %d is no longer pending", revision)
	}
	return record, nil
}
