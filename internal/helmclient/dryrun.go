// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// DryRun is what the next installation or upgrade of a release would apply. It contains the values, also those from
// Secrets, wherever the chart puts them.
type DryRun struct {
	// Revision is the Helm revision that the action would create; 1 for an installation.
	Revision int

	// Manifest has the objects as YAML documents, in the order in which Helm creates them, without hooks.
	Manifest string

	// Hooks are the manifests of the hooks, tests included, and CRDs are the files of the folders crds.
	Hooks, CRDs []string

	// Notes is the rendered NOTES.txt of the chart.
	Notes string
}

// Render renders a release for a cluster as Act would: with the version and the API groups of the cluster, with the
// lookups of the chart, and as an upgrade if the cluster has the release. It writes nothing. The error is an
// [*helmerr.Error].
func (c *Client) Render(ctx context.Context, target model.Target, desired model.Desired, options model.Options,
	chrt *chart.Chart, values map[string]any,
) (DryRun, error) {
	logs := &helmerr.LogBuffer{Redactor: helmerr.NewRedactor(values, options.SecretValues)}
	s, err := c.open(ctx, target, desired, logs)
	if err != nil {
		return DryRun{}, newActError(model.ActionInstall, err, nil, logs)
	}
	s.renderer = c.renderer
	if s.records != nil {
		defer s.records.Release()
	}
	rendered, verb, err := s.dryRun(ctx, desired, options, chrt, values)
	if err != nil {
		return DryRun{}, newActError(verb, err, s, logs)
	}
	return rendered, nil
}

// dryRun renders a release. It returns the action that a real run would be, also with an error.
func (s *session) dryRun(ctx context.Context, desired model.Desired, options model.Options, chrt *chart.Chart,
	values map[string]any,
) (rendered DryRun, verb model.Action, err error) {
	next, err := s.nextRelease(desired)
	if err != nil {
		return rendered, model.ActionInstall, err
	}
	verb, rendered.Revision = model.ActionInstall, next.Revision
	policy := options.Install.CRDs
	if next.IsUpgrade {
		verb, policy = model.ActionUpgrade, options.Upgrade.CRDs
		if values, err = s.upgradeValues(desired, options.Upgrade.Values, values); err != nil {
			return rendered, verb, err
		}
	}
	if err := rendering.CheckChart(chrt); err != nil {
		return rendered, verb, err
	}
	source := sourceOf(desired, chrt, values)
	if !options.SkipsSchema(verb) {
		if err := s.renderer.CheckValues(ctx, source); err != nil {
			return rendered, verb, err
		}
	}
	if policy != model.CRDsSkip {
		files, err := s.renderer.CRDs(ctx, source)
		if err != nil {
			return rendered, verb, err
		}
		for _, file := range files {
			rendered.CRDs = append(rendered.CRDs, string(file.File.Data))
		}
	}
	err = s.renderManifest(ctx, desired, options, source, next, &rendered)
	return rendered, verb, err
}

// nextRelease returns what templates see of the release: an installation if the cluster does not have the release.
func (s *session) nextRelease(desired model.Desired) (chartutil.ReleaseOptions, error) {
	next := chartutil.ReleaseOptions{Name: desired.Name, Namespace: desired.Namespace, Revision: 1, IsInstall: true}
	last, err := s.config.Releases.Last(desired.Name)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
		return next, nil
	case err != nil:
		return next, err
	case last.Info != nil && last.Info.Status == release.StatusUninstalled:
		return next, nil
	}
	next.IsInstall, next.IsUpgrade, next.Revision = false, true, last.Version+1
	return next, nil
}

// renderManifest sets manifest, hooks and notes.
func (s *session) renderManifest(ctx context.Context, desired model.Desired, options model.Options,
	source rendering.Source, next chartutil.ReleaseOptions, rendered *DryRun,
) (err error) {
	install := s.newDryRun(desired, next.IsUpgrade)
	install.PostRenderer, err = s.renderer.PostRenderer(ctx, options.PostRender, desired.Namespace, tenantOf(desired))
	if err != nil {
		return err
	}
	literal, err := s.render(desired, source.Chart, source.Values, next)
	if err != nil {
		return err
	}
	rls, err := install.Run(literal, rendering.CopyValues(source.Values))
	if err != nil {
		return err
	}
	rendered.Manifest, rendered.Notes = rls.Manifest, rls.Info.Notes
	for _, hook := range rls.Hooks {
		rendered.Hooks = append(rendered.Hooks, hook.Manifest)
	}
	return nil
}

// newDryRun returns Helm's install action that renders a chart of literal templates and sends no request.
func (s *session) newDryRun(desired model.Desired, upgrade bool) *action.Install {
	install := action.NewInstall(&action.Configuration{Log: s.logs.Printf, Capabilities: s.config.Capabilities})
	install.ReleaseName, install.Namespace, install.Labels = desired.Name, desired.Namespace, model.DesiredLabels(desired)
	install.ClientOnly, install.DryRun, install.SkipCRDs, install.SkipSchemaValidation = true, true, true, true
	install.IsUpgrade = upgrade
	install.KubeVersion = &s.config.Capabilities.KubeVersion
	return install
}
