// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// maxRevisions bounds the number of revisions whose objects are checked.
	maxRevisions = 10
	// MaxBytes bounds the size of their manifests, in bytes: above it, no further manifest is read.
	MaxBytes = 32 << 20
)

// Leftovers holds revisions that Helm does not check, although their objects may exist. An upgrade compares with the
// deployed revision and ignores objects of later, failed revisions. A rollback and an uninstallation check only the
// newest revision.
type Leftovers struct {
	// Revisions are the revisions, newest first.
	Revisions []Revision
	// HasBaseline means that Helm compares with the newest revision, and that this revision failed. Then it is the first
	// of Revisions.
	HasBaseline bool
}

// Revision is one revision, or several revisions with the same content.
type Revision struct {
	Manifest string
	// Worked means that a revision worked, so that all its objects belong to the release.
	Worked bool
	// IsForeign means that HelmOp did not create the record, but for example the helm command.
	IsForeign bool
	// Since is when the first action on a revision began, by the clock of the API server; zero if it is unknown. A failed
	// action may have taken over objects that are older.
	Since time.Time
}

// Worked reports whether a revision worked, according to its status.
func Worked(record *release.Release) bool {
	return record.Info.Status != release.StatusFailed && !record.Info.Status.IsPending() || wasUninstalled(record)
}

// wasUninstalled reports whether a revision that worked is failed because its uninstallation was given up. The label
// alone does not show this: an interrupted installation after the loss of all records may have it, too.
func wasUninstalled(record *release.Release) bool {
	return !record.Info.Deleted.IsZero() && record.Labels[model.LabelMayHaveWorked] == "true"
}

// Unchecked returns the revisions, newest first, that Helm does not check and whose objects may exist.
func Unchecked(history []*release.Release, decision decide.Decision) []*release.Release {
	var found []*release.Release
	for i, record := range history {
		if record.Info == nil || record.Info.Status == release.StatusUninstalled || len(found) == maxRevisions {
			break
		}
		worked := record.Info.Status == release.StatusDeployed || record.Info.Status == release.StatusSuperseded
		switch {
		case i == 0 && worked:
			// Helm checks this revision, and no other revision has objects.
			return nil
		case decision.Action == model.ActionRollback && record.Version == decision.RollbackTo:
			if i > 0 {
				return found
			}
			continue
		case decision.Action.RendersChart() && record.Info.Status == release.StatusDeployed:
			return found
		}
		found = append(found, record)
		if worked && decision.Action != model.ActionRollback {
			// The action that created this revision deleted the objects of earlier revisions.
			return found
		}
	}
	return found
}

// NeverWorked reports whether HelmOp created all revisions of a history and none of them ever worked. If so, HelmOp
// created each object of the release, with the annotations of Helm. Objects without these annotations belong to other
// owners.
func NeverWorked(history []*release.Release) bool {
	for _, record := range history {
		if record.Info == nil || record.Labels[model.LabelRevision] != strconv.Itoa(record.Version) {
			return false
		}
		switch status := record.Info.Status; {
		case wasUninstalled(record):
			return false
		case status == release.StatusFailed, status.IsPending():
		case status == release.StatusUninstalling && record.Labels[model.LabelNeverWorked] == "true":
		default:
			return false
		}
	}
	return true
}
