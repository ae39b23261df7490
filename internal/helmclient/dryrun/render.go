// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"slices"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// reader reads and renders a release with a session, and changes nothing.
type reader struct{ *session.Session }

// render renders a release. next is what templates see of it. For an adoption, the options of an upgrade apply, also if
// the templates see an installation.
func (s reader) render(j session.Job, next chartutil.ReleaseOptions) (rendered Result, err error) {
	rendered.Revision = next.Revision
	policy, skipsSchema, values := j.Options.Install.CRDs, j.Options.Install.DisableSchemaValidation, j.Values
	if next.IsUpgrade || j.Decision.Action == model.ActionAdopt {
		policy, skipsSchema = j.Options.Upgrade.CRDs, j.Options.Upgrade.DisableSchemaValidation
		if values, err = s.UpgradeValues(j); err != nil {
			return rendered, err
		}
	}
	if err := rendering.CheckChart(j.Chart); err != nil {
		return rendered, err
	}
	source := j.Source(values)
	if !skipsSchema {
		if err := s.Renderer.CheckValues(s.Ctx, source); err != nil {
			return rendered, err
		}
	}
	if policy != model.CRDsSkip {
		files, err := s.Renderer.CRDs(s.Ctx, source)
		if err != nil {
			return rendered, err
		}
		for _, file := range files {
			rendered.CRDs = append(rendered.CRDs, string(file.File.Data))
		}
		if rendered.crds, err = crds.Read(files); err != nil {
			return rendered, err
		}
		s.announce(&rendered, policy)
	}
	err = s.renderManifest(j, source, next, &rendered)
	return rendered, err
}

// announce makes templates see the kinds of CRDs that would be applied before the chart is rendered.
func (s reader) announce(rendered *Result, policy model.CRDPolicy) {
	capabilities := s.Config.Capabilities
	rendered.announced = crds.Announced(rendered.crds, policy, capabilities.APIVersions)
	// The list is shared with other actions.
	capabilities.APIVersions = slices.Clip(capabilities.APIVersions)
	for _, kind := range rendered.announced {
		groupVersion := kind.GroupVersion().String()
		if !capabilities.APIVersions.Has(groupVersion) {
			capabilities.APIVersions = append(capabilities.APIVersions, groupVersion)
		}
		capabilities.APIVersions = append(capabilities.APIVersions, groupVersion+"/"+kind.Kind)
	}
}

// nextRelease returns what templates see of the release: an installation if the cluster does not have the release.
func nextRelease(desired model.Desired, observation model.Observation) chartutil.ReleaseOptions {
	next := chartutil.ReleaseOptions{Name: desired.Name, Namespace: desired.Namespace, Revision: 1, IsInstall: true}
	newest, ok := observation.Newest()
	if !ok || release.Status(newest.Status) == release.StatusUninstalled {
		return next
	}
	next.IsInstall, next.IsUpgrade, next.Revision = false, true, newest.Revision+1
	return next
}

// renderManifest sets manifest, hooks and notes.
func (s reader) renderManifest(j session.Job, source rendering.Source, next chartutil.ReleaseOptions, rendered *Result,
) (err error) {
	install := s.DryRun(j.Desired, next.IsUpgrade)
	if install.PostRenderer, err = s.PostRenderer(j); err != nil {
		return err
	}
	literal, err := s.Render(source, next)
	if err != nil {
		return err
	}
	rls, err := install.Run(literal, rendering.CopyValues(source.Values))
	if err != nil {
		return err
	}
	rendered.Manifest, rendered.Notes = rls.Manifest, rls.Info.Notes
	rendered.hooks = rls.Hooks
	for _, hook := range rls.Hooks {
		rendered.Hooks = append(rendered.Hooks, hook.Manifest)
	}
	return nil
}
