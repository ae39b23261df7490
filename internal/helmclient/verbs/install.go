// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/namespacing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// install installs the release. If the release was uninstalled and its history was kept, the installation adds a
// revision to the history.
func (s *verb) install() error {
	s.assumeAbsent()
	renderer, err := s.prepare(s.Values, false)
	if err != nil {
		return err
	}
	replace := s.Decision.State == model.StateUninstalled ||
		s.Decision.Recovery == decide.RecoverReplace && s.Decision.FromRevision > 1
	if replace {
		// Helm limits the history only on upgrades, but an installation over a kept history also adds a revision.
		s.Config.Releases.MaxHistory = s.Options.Upgrade.HistoryLimit()
	}
	install := s.newInstall(s.Desired, s.Options.Install, replace)
	install.PostRenderer = renderer
	rendered, err := s.Render(s.Source(s.Values), chartutil.ReleaseOptions{
		Name: s.Desired.Name, Namespace: s.Desired.Namespace, Revision: 1, IsInstall: true,
	})
	if err != nil {
		return err
	}
	isFirst := s.Decision.State == model.StateAbsent && s.Decision.Recovery == decide.RecoverNothing
	if isFirst {
		s.assumeMissing()
	}
	if !isFirst || !s.Namespace.AssumeMissing() {
		// The creation of the namespace will not show whether the release has records.
		if err := s.readAssumed(); err != nil {
			return err
		}
	}
	if s.Cluster != nil {
		s.Cluster.Found, s.Storage.HasSurvivors = s.Storage.NoteFound, s.Cluster.HasSurvivors
	}
	s.Storage.Labels = records.AttemptLabels(s.Desired, s.Decision).WithPublicValues(s.HasPublicValues())
	for {
		// Helm changes the values that it gets.
		_, err = install.Run(rendered, rendering.CopyValues(s.Values))
		// Each of these errors ends an assumption for good, so the loop ends.
		if !errors.Is(err, namespacing.ErrExists) && !errors.Is(err, apply.ErrObjectsExist) {
			return err
		}
		if errors.Is(err, namespacing.ErrExists) {
			if err := s.readAssumed(); err != nil {
				return err
			}
		}
		if err := s.Memory.RenderAgain(); err != nil {
			return err
		}
	}
}

// assumeAbsent begins the assumption of a decision that the release has no records. If the action creates the namespace
// of the release right before the record, the namespace was missing, so there were no records. Otherwise, the action
// must call readAssumed before it writes anything.
func (s *verb) assumeAbsent() {
	if s.Decision.Assumed && s.Records != nil {
		s.Records.AssumeNone(s.Desired.Name)
		s.assumed = true
	}
}

// readAssumed ends the assumption of assumeAbsent, and lists the records. The error is of the kind [helmerr.ErrStale]
// if the release has records.
func (s *verb) readAssumed() error {
	if !s.assumed {
		return nil
	}
	s.assumed = false
	s.Storage.Refresh()
	found, err := s.Records.History(s.Desired.Name)
	if err != nil {
		return fmt.Errorf("reading the history: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	return helmerr.New(helmerr.ErrStale, "the release %s/%s exists already", s.Desired.Namespace, s.Desired.Name)
}

// assumeMissing makes the installation assume that some objects of the chart do not exist, see
// [apply.Client.AssumeMissing]. The installation creates these objects before all hooks. So if the chart has hooks for
// this time, Helm reads the objects. With the option takeOwnership, objects probably exist.
func (s *verb) assumeMissing() {
	if s.Cluster == nil || s.Namespace.Impersonated || s.Options.Install.TakeOwnership {
		return
	}
	s.Cluster.AssumeMissing()
	s.Storage.Created = s.Cluster.CreateAssumed
	s.Storage.Admit = func(rls *release.Release) error {
		if !s.Cluster.AssumesMissing() || s.Options.Install.DisableHooks || !hasHook(rls, release.HookPreInstall) {
			return nil
		}
		s.Cluster.AssumeNothing()
		return apply.ErrObjectsExist
	}
}

// hasHook reports whether a release has hooks for an event.
func hasHook(rls *release.Release, event release.HookEvent) bool {
	return slices.ContainsFunc(rls.Hooks, func(hook *release.Hook) bool { return slices.Contains(hook.Events, event) })
}

// newInstall returns Helm's install action with the options.
func (s *verb) newInstall(desired model.Desired, options model.InstallOptions, replace bool) *action.Install {
	install := action.NewInstall(s.Config)
	install.ReleaseName = desired.Name
	install.Namespace = desired.Namespace
	install.Labels = model.DesiredLabels(desired)
	install.Timeout = options.ActionTimeout()
	install.DisableHooks = options.DisableHooks
	// The Namespacer creates the namespace, and prepare applies the CRDs.
	install.CreateNamespace = false
	install.SkipCRDs = true
	install.TakeOwnership = options.TakeOwnership
	install.DisableOpenAPIValidation = options.DisableOpenAPIValidation
	install.Replace = replace
	// Check has already validated the values. Its validation uses no files and no network, and its errors contain no
	// values.
	install.SkipSchemaValidation = true
	return install
}
