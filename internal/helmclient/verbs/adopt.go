// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/adoption"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// adopt adopts a release of another owner. If the desired state would change nothing, adopt only labels the newest
// record. Otherwise, it upgrades the release. It fails if the decision permits an adoption only without changes.
func (s *verb) adopt() error {
	if err := s.checkNewest(); err != nil {
		return err
	}
	recorded, differences, err := dryrun.AdoptionDifferences(s.Session, s.Job)
	switch {
	case err != nil:
		return err
	case len(differences) == 0:
		return s.label(recorded)
	case s.Decision.UnchangedOnly:
		return helmerr.New(helmerr.ErrWouldChange, "the adoption of Helm revision %d would change %s; nothing was changed. "+
			"Change the values or the chart until nothing differs, or set install.adoption to Upgrade; kubectl helmop preview "+
			"shows the changes", recorded.Version, adoption.Summarize(differences))
	default:
		return s.upgrade()
	}
}

// label labels the record of an adopted revision. Another process may uninstall the release at the same time, and marks
// the record first. Both writes require an unchanged record, see [records.Store.Relabel]. So at most one of them
// succeeds.
func (s *verb) label(recorded *release.Release) error {
	s.Storage.Labels = records.AdoptionLabels(s.Desired, s.Decision)
	if err := s.Storage.Relabel(records.NameOf(recorded.Name, recorded.Version), recorded); err != nil {
		return err
	}
	s.Storage.Refresh()
	last, err := s.Config.Releases.Last(s.Desired.Name)
	if err != nil {
		return fmt.Errorf("reading the history again: %w", err)
	}
	if last.Version != recorded.Version {
		// The next reconciliation decides about the new revision, so this does not count as an attempt.
		s.Storage.Restart()
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was created in the meantime", last.Version)
	}
	return nil
}
