// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	helmtime "helm.sh/helm/v3/pkg/time"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// uninstall uninstalls the release. It succeeds if the release does not exist.
func (s *verb) uninstall() error {
	s.Memory.Force()
	if s.Decision.Reason == decide.ReasonRemediateUninstall {
		// Another process may have repaired the release since the decision.
		if err := s.checkNeverWorked(); err != nil {
			return err
		}
	}
	if err := s.FindLeftovers(s.Decision, s.Desired); err != nil {
		return err
	}
	if err := s.hideUninstalled(); err != nil {
		return err
	}
	if err := s.admitUninstall(); err != nil {
		return err
	}
	if err := s.expectManifests(); err != nil {
		return err
	}
	if err := s.renewKinds(); err != nil {
		return err
	}
	unmark, err := s.markUninstalling()
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	uninstall := s.newUninstall(s.Options.Uninstall)
	if s.Cluster != nil {
		// Only hooks are applied. Hooks of kinds that the cluster no longer serves are skipped.
		s.Cluster.Lenient = true
		s.Cluster.Remaining = func() {
			// Without its records, the release would count as uninstalled. The next try runs the post-delete hooks.
			s.Storage.Hold()
			uninstall.DisableHooks = true
		}
	}
	_, err = uninstall.Run(s.Desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	switch {
	case err != nil && !s.Storage.Begun:
		return errors.Join(err, unmark())
	case err == nil && s.Options.Uninstall.KeepHistory:
		return s.checkRecorded(release.StatusUninstalled)
	default:
		return err
	}
}

// hideUninstalled hides the values of the newest revision in later log lines and errors.
func (s *verb) hideUninstalled() error {
	last, err := s.Config.Releases.Last(s.Desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the newest Helm revision: %w", err)
	}
	s.HideValues(last)
	return nil
}

// expectManifests reserves memory for the manifest and the hooks of the newest revision, before the action changes
// anything. Helm sorts the documents of the manifest before it builds the objects. So the memory is not for exactly
// these texts, but for all that do not need more.
func (s *verb) expectManifests() error {
	last, err := s.Config.Releases.Last(s.Desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	total := yamlweight.Weight{}
	for _, text := range session.TextsOf(last) {
		weight, err := s.Memory.Weigh(text)
		if err != nil {
			return err
		}
		// Helm separates the documents by other lines.
		weight.Bytes += int64(strings.Count(text, "\n---")+1) * int64(len("\n---\n"))
		total = total.Plus(weight)
	}
	return s.Memory.Render(total)
}

// renewKinds runs discovery if the known kinds are outdated and the uninstallation does more than to delete the objects
// of the newest revision. Only this deletion detects that the cluster no longer serves the version of an object. For
// hooks, for a wait and for the objects of other revisions, such an object would count as missing.
func (s *verb) renewKinds() error {
	if s.Cluster == nil {
		return nil
	}
	last, err := s.Config.Releases.Last(s.Desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	behind := s.Cluster.Leftovers
	if !hasHook(last, release.HookPreDelete) && !hasHook(last, release.HookPostDelete) && !s.Options.Uninstall.Wait &&
		(behind == nil || len(behind.Revisions) == 0) {
		return nil
	}
	_, err = s.Cluster.Clients.Conn.Capabilities(false, s.Logs.Printf)
	return err
}

// markUninstalling marks the newest revision as uninstalling, before any deletion or hook. It returns an error if the
// decision is not based on this revision. After the mark, it checks again that the revision is the newest. A process
// that adopts the release writes its own record first and then reads this record, see
// [verb.checkNotUninstalledMeanwhile]. So at least one of two concurrent processes reads the record of the other.
// unmark removes the mark.
func (s *verb) markUninstalling() (unmark func() error, err error) {
	last, err := s.Config.Releases.Last(s.Desired.Name)
	if err != nil {
		return nil, err
	}
	if err := checkUninstallable(last, s.Decision, s.Desired); err != nil {
		return nil, err
	}
	if err := s.checkSameRecord(); err != nil {
		return nil, err
	}
	info, uid := *last.Info, last.Labels[model.LabelReleaseUID]
	unmark = func() error {
		if info.Status == release.StatusUninstalling {
			return nil
		}
		s.Storage.Mark(false)
		last.Info = &info
		delete(last.Labels, model.LabelReleaseUID)
		model.SetText(last.Labels, model.LabelReleaseUID, uid)
		if err := s.Config.Releases.Update(last); err != nil {
			return fmt.Errorf("removing the mark that Helm revision %d is being uninstalled: %w", last.Version, err)
		}
		// The release has not changed, so this does not count as an attempt.
		s.Storage.Restart()
		return nil
	}
	marked := info
	marked.Status, marked.Deleted, marked.Description = release.StatusUninstalling, helmtime.Now(),
		"Deletion in progress (or silently failed)"
	last.Info = &marked
	if s.Cluster != nil && s.Cluster.OnlyOwned {
		// The status "uninstalling" hides that the release never worked. The label keeps this fact for the next
		// uninstallation, if this uninstallation is interrupted.
		last.Labels[model.LabelNeverWorked] = "true"
	}
	if last.Labels[model.LabelOwner] != "" {
		// Only a manager of this object continues the uninstallation at once. After a move, the record may have the UID of
		// the former object.
		model.SetText(last.Labels, model.LabelReleaseUID, s.Desired.UID)
	}
	if err := s.Config.Releases.Update(last); err != nil {
		return nil, fmt.Errorf("marking Helm revision %d as uninstalling: %w", last.Version, err)
	}
	s.Storage.Mark(true)
	if s.Records != nil {
		s.Records.DeleteTogether(records.NameOf(s.Desired.Name, last.Version))
	}
	newest, err := s.Config.Releases.Last(s.Desired.Name)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the history again: %w", err), unmark())
	}
	if newest.Version != last.Version {
		return nil, errors.Join(helmerr.New(helmerr.ErrStale, "Helm revision %d was created in the meantime", newest.Version),
			unmark())
	}
	return unmark, nil
}

// checkUninstallable returns an error if the newest revision is not the revision that the decision is based on.
func checkUninstallable(last *release.Release, decision decide.Decision, desired model.Desired) error {
	switch {
	case decision.FromRevision > 0 && last.Version != decision.FromRevision:
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was created after Helm revision "+
			"%d", last.Version, decision.FromRevision)
	case last.Info == nil:
		return helmerr.New(helmerr.ErrStale, "the record of Helm revision %d is incomplete", last.Version)
	case last.Info.Status.IsPending() && decision.State != model.StatePending:
		return helmerr.New(helmerr.ErrStale, "Helm revision %d is %s", last.Version, last.Info.Status)
	}
	return checkOwner(last, decision, desired)
}

// checkNotUninstalledMeanwhile returns an error if the previous owner of an adopted release has begun to uninstall the
// release.
func (s *verb) checkNotUninstalledMeanwhile() error {
	s.Storage.Refresh()
	adopted, err := s.Config.Releases.Get(s.Desired.Name, s.Decision.FromRevision)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was uninstalled in the meantime", s.Decision.FromRevision)
	}
	if err != nil {
		return fmt.Errorf("reading Helm revision %d again: %w", s.Decision.FromRevision, err)
	}
	return checkNotUninstalled(adopted)
}

// newUninstall returns Helm's uninstall action with the options. It does not set IgnoreNotFound. With this option, Helm
// would ignore a failure to read the storage, and report the release as uninstalled.
func (s *verb) newUninstall(options model.UninstallOptions) *action.Uninstall {
	uninstall := action.NewUninstall(s.Config)
	uninstall.Timeout = options.ActionTimeout()
	uninstall.DisableHooks = options.DisableHooks
	uninstall.KeepHistory = options.KeepHistory
	uninstall.Wait = options.Wait
	uninstall.DeletionPropagation = strings.ToLower(string(cmp.Or(options.Propagation,
		metav1.DeletePropagationBackground)))
	return uninstall
}
