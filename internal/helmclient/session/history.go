// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/leftovers"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/redaction"
)

// Previous returns the revision that an upgrade starts from. This is the deployed revision, or the newest revision if
// no revision is deployed.
func (s *Session) Previous(name string) (*release.Release, error) {
	last, err := s.Config.Releases.Last(name)
	if err != nil || last.Info != nil && last.Info.Status == release.StatusDeployed {
		return last, err
	}
	deployed, err := s.Config.Releases.Deployed(name)
	if errors.Is(err, driver.ErrNoDeployedReleases) {
		return last, nil
	}
	return deployed, err
}

// HideValues hides the values of a recorded revision in later log lines and errors: the objects and the hooks of the
// revision may contain them. If some may come from a Secret, it hides all values: the record does not say which ones.
// Otherwise it hides those with keys such as "password".
func (s *Session) HideValues(recorded *release.Release) {
	if records.HasPublicValues(recorded) {
		s.Logs.Hide(recorded.Config)
		return
	}
	s.Logs.HideAll(recorded.Config)
}

// HideFormer is like HideValues, but the values of the release at present stay readable: they are hidden already if
// they are secret. A Secret may have had another content when the revision was recorded.
func (s *Session) HideFormer(recorded *release.Release, values map[string]any) {
	if records.HasPublicValues(recorded) {
		s.Logs.Hide(recorded.Config)
		return
	}
	s.Logs.HideAll(redaction.Former(recorded.Config, values))
}

// ManifestOf returns the manifest of a record. If the history has only the metadata, ManifestOf reads the record.
func (s *Session) ManifestOf(record *release.Release) (string, error) {
	if record.Manifest != "" {
		return record.Manifest, nil
	}
	whole, err := s.Config.Releases.Get(record.Name, record.Version)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Helm revision %d: %w", record.Version, err)
	}
	return whole.Manifest, nil
}

// GuardUnowned determines how an upgrade treats objects without the annotations of the release. Callers must call
// FindLeftovers first.
func (s *Session) GuardUnowned(options *model.Options) {
	if s.Cluster == nil {
		return
	}
	if options.Upgrade.TakeOwnership {
		s.Cluster.OnlyOwned = false // TakeOwnership includes objects without the annotations of the release.
	}
	s.Cluster.RefusesOthers = !options.Upgrade.TakeOwnership
	// Helm checks only objects that the last revision did not have. But if the first installation failed because an
	// object of another owner exists, its revision has that object.
	s.Cluster.RefusesUnowned = s.Cluster.OnlyOwned && !options.Install.TakeOwnership
}

// FindLeftovers reads the manifests of revisions that Helm does not check. The action then deletes the objects of these
// revisions, except objects that the new revision has. If the newest revision did not fail and was not interrupted,
// FindLeftovers reads no additional records. It reserves memory for the manifests.
func (s *Session) FindLeftovers(decision decide.Decision, desired model.Desired) error {
	if s.Cluster == nil {
		return nil
	}
	history, err := s.Config.Releases.History(desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the history: %w", err)
	}
	history = slices.Clone(history)
	releaseutil.Reverse(history, releaseutil.SortByRevision)
	if err := s.addDeletions(history); err != nil {
		return err
	}
	s.Cluster.OnlyOwned = leftovers.NeverWorked(history)
	begun, err := s.recordTimes(desired.Name)
	if err != nil {
		return err
	}
	found := &leftovers.Leftovers{HasBaseline: isBaseline(history, decision)}
	// known has the index of the revision with the same content; -1 if the next revision has this content, too.
	size, known := 0, map[string]int{}
	if decision.Action.RendersChart() {
		known[model.DigestsIn(model.DesiredLabels(desired))] = -1
	}
	for _, record := range leftovers.Unchecked(history, decision) {
		key, isForeign := model.DigestsIn(record.Labels), record.Labels[model.LabelRevision] != strconv.Itoa(record.Version)
		if isForeign {
			// The digests in its labels have no meaning.
			key = strconv.Itoa(record.Version)
		}
		since := begun[records.NameOf(record.Name, record.Version)]
		at, isKnown := known[key]
		if isKnown && record.Manifest == "" {
			if at >= 0 {
				same := &found.Revisions[at]
				same.Worked, same.Since = same.Worked || leftovers.Worked(record), model.Earlier(same.Since, since)
			}
			continue
		}
		known[key] = len(found.Revisions)
		manifest, err := s.ManifestOf(record)
		if err != nil {
			return err
		}
		if err := s.Memory.Expect(manifest); err != nil {
			return err
		}
		found.Revisions = append(found.Revisions, leftovers.Revision{Manifest: manifest, Worked: leftovers.Worked(record),
			IsForeign: isForeign, Since: since})
		if size += len(manifest); size > leftovers.MaxBytes {
			break
		}
	}
	s.Cluster.Leftovers = found
	return nil
}

// addDeletions adds to a history, newest first, the times of uninstallations that may have been given up. The metadata
// of a record do not have this time, so addDeletions reads the whole record. If the newest revision is deployed, all
// objects belong to this revision, and the times do not matter.
func (s *Session) addDeletions(history []*release.Release) error {
	for i, record := range history {
		if record.Info == nil || i == 0 && record.Info.Status == release.StatusDeployed {
			return nil
		}
		if record.Manifest != "" || record.Info.Status != release.StatusFailed ||
			record.Labels[model.LabelMayHaveWorked] != "true" {
			continue
		}
		whole, err := s.Config.Releases.Get(record.Name, record.Version)
		if errors.Is(err, driver.ErrReleaseNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading Helm revision %d: %w", record.Version, err)
		}
		completed := *record
		completed.Info = whole.Info
		history[i] = &completed
	}
	return nil
}

// isBaseline reports whether Helm compares an upgrade or a rollback with the newest revision, and this revision failed.
// history is Helm's history, newest first.
func isBaseline(history []*release.Release, decision decide.Decision) bool {
	if len(history) == 0 || history[0].Info == nil || leftovers.Worked(history[0]) {
		return false
	}
	return decision.Action == model.ActionRollback || !slices.ContainsFunc(history, func(record *release.Release) bool {
		return record.Info != nil && record.Info.Status == release.StatusDeployed
	})
}

// recordTimes returns [model.Record].AttemptsSince of the records of a release, by the names of their Secrets. It sends
// no request, because the history was read before.
func (s *Session) recordTimes(name string) (map[string]time.Time, error) {
	if s.Records == nil {
		return nil, nil
	}
	objects, err := s.Records.History(name)
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	times := make(map[string]time.Time, len(objects))
	for i := range objects {
		record, _ := records.FromMetadata(&objects[i].ObjectMeta)
		times[objects[i].Name] = record.AttemptsSince
	}
	return times, nil
}

// TextsOf returns the manifest of a revision and those of its hooks.
func TextsOf(rls *release.Release) []string {
	return append([]string{rls.Manifest}, HookTexts(rls.Hooks)...)
}

// HookTexts returns the manifests of hooks.
func HookTexts(hooks []*release.Hook) []string {
	var texts []string
	for _, hook := range hooks {
		if hook != nil {
			texts = append(texts, hook.Manifest)
		}
	}
	return texts
}
