/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

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
)

// uninstall removes the release. One that is gone already is no error.
func (s *session) uninstall(decision Decision, desired Desired, options UninstallOptions) error {
	if decision.Reason == ReasonRemediateUninstall {
		// It may work by now, if somebody else has seen to it.
		if err := s.checkNeverWorked(decision, desired); err != nil {
			return err
		}
	}
	if err := s.findLeftovers(decision, desired); err != nil {
		return err
	}
	unmark, err := s.markUninstalling(decision, desired)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.onlyDeletes()
	_, err = s.newUninstall(options).Run(desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil && !s.storage.begun {
		return errors.Join(err, unmark())
	}
	return err
}

// markUninstalling marks the newest revision as uninstalling before anything is deleted or any hook runs, if that revision is still the
// one that was decided on, and looks whether it still is the newest one. Whoever adopts a release writes its own record and then
// looks at this one, see [session.checkNotUninstalledMeanwhile]: of two that write at the same time, at least one sees the other.
// Unmark takes the mark back.
func (s *session) markUninstalling(decision Decision, desired Desired) (unmark func() error, err error) {
	last, err := s.config.Releases.Last(desired.Name)
	if err != nil {
		return nil, err
	}
	if err := checkUninstallable(last, decision, desired); err != nil {
		return nil, err
	}
	if err := s.checkSameRecord(decision, desired); err != nil {
		return nil, err
	}
	// Its hooks are made of these values.
	s.logs.hide(last.Config)
	info := *last.Info
	unmark = func() error {
		if info.Status == release.StatusUninstalling {
			return nil
		}
		s.storage.mark(false)
		last.Info = &info
		if err := s.config.Releases.Update(last); err != nil {
			return fmt.Errorf("taking back that revision %d is being uninstalled: %w", last.Version, err)
		}
		// Nothing has changed, and this counts as no try.
		s.storage.restart()
		return nil
	}
	marked := info
	marked.Status, marked.Deleted, marked.Description = release.StatusUninstalling, helmtime.Now(), "Deletion in progress (or silently failed)"
	last.Info = &marked
	if err := s.config.Releases.Update(last); err != nil {
		return nil, fmt.Errorf("marking revision %d as uninstalling: %w", last.Version, err)
	}
	s.storage.mark(true)
	newest, err := s.config.Releases.Last(desired.Name)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the history again: %w", err), unmark())
	}
	if newest.Version != last.Version {
		return nil, errors.Join(errorOfKind(ErrStale, "revision %d was made meanwhile", newest.Version), unmark())
	}
	return unmark, nil
}

// checkUninstallable returns an error unless the newest revision, as the cluster has it now, is still what was decided on.
func checkUninstallable(last *release.Release, decision Decision, desired Desired) error {
	owner := last.Labels[LabelOwner]
	switch {
	case decision.FromRevision > 0 && last.Version != decision.FromRevision:
		return errorOfKind(ErrStale, "revision %d is there, after revision %d", last.Version, decision.FromRevision)
	case owner != "" && owner != ownerLabel(desired.Owner) && decision.State != StateForeign:
		return errorOfKind(ErrStale, "revision %d belongs to HelmOp %q", last.Version, owner)
	case !isManagedBy(last.Labels[LabelManagementCluster], desired) && decision.State != StateForeign:
		return errorOfKind(ErrStale, "revision %d belongs to the management cluster %q", last.Version, last.Labels[LabelManagementCluster])
	case last.Info == nil:
		return errorOfKind(ErrStale, "the record of revision %d is incomplete", last.Version)
	case last.Info.Status.IsPending() && decision.State != StatePending:
		return errorOfKind(ErrStale, "revision %d is %s", last.Version, last.Info.Status)
	}
	return nil
}

// checkNotUninstalledMeanwhile returns an error if the revision that is adopted is being uninstalled by its owner, or gone.
func (s *session) checkNotUninstalledMeanwhile(decision Decision, desired Desired) error {
	s.storage.refresh()
	adopted, err := s.config.Releases.Get(desired.Name, decision.FromRevision)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return errorOfKind(ErrStale, "revision %d was uninstalled meanwhile", decision.FromRevision)
	}
	if err != nil {
		return fmt.Errorf("reading revision %d again: %w", decision.FromRevision, err)
	}
	return checkNotUninstalled(adopted)
}

// newUninstall maps the options to Helm's. Its IgnoreNotFound is not used: it would ignore any failure to read the
// storage and call the release uninstalled.
func (s *session) newUninstall(options UninstallOptions) *action.Uninstall {
	uninstall := action.NewUninstall(s.config)
	uninstall.Timeout = options.timeout()
	uninstall.DisableHooks = options.DisableHooks
	uninstall.KeepHistory = options.KeepHistory
	uninstall.Wait = options.Wait
	uninstall.DeletionPropagation = strings.ToLower(string(cmp.Or(options.Propagation, metav1.DeletePropagationBackground)))
	return uninstall
}
