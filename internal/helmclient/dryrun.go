// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
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

	// hooks are the hooks in the types of Helm, and crds the objects in the folders crds.
	hooks []*release.Hook
	crds  []*crds.Object
	// announced are the kinds that the cluster serves only after the CRDs were applied.
	announced []schema.GroupVersionKind
}

// Objects returns all objects, those of hooks and of the folders crds included.
func (d *DryRun) Objects() ([]*unstructured.Unstructured, error) {
	objects, hooks, definitions, err := d.Parts()
	return slices.Concat(definitions, objects, hooks), err
}

// Render renders a release for a cluster as Act would: with the version and the API groups of the cluster, with the
// lookups of the chart, and as an upgrade if the cluster has the release. It writes nothing. The error is an
// [*helmerr.Error].
func (c *Client) Render(ctx context.Context, target model.Target, desired model.Desired, options model.Options,
	chrt *chart.Chart, values map[string]any,
) (DryRun, error) {
	return c.renderFor(ctx, target, desired, options, chrt, values, nil)
}

// renderFor renders a release. change may change what templates see of the cluster; nil changes nothing.
func (c *Client) renderFor(ctx context.Context, target model.Target, desired model.Desired, options model.Options,
	chrt *chart.Chart, values map[string]any, change func(*chartutil.Capabilities) error,
) (DryRun, error) {
	logs := &helmerr.LogBuffer{Redactor: helmerr.NewRedactor(values, options.SecretValues)}
	observation, err := c.Observe(ctx, target, desired.Namespace, desired.Name)
	if err != nil {
		return DryRun{}, err
	}
	next := nextRelease(desired, observation)
	verb := model.ActionInstall
	if next.IsUpgrade {
		verb = model.ActionUpgrade
	}
	s, err := c.open(ctx, target, desired, logs)
	if err != nil {
		return DryRun{}, newActError(verb, err, nil, logs)
	}
	s.renderer = c.renderer
	if s.records != nil {
		defer s.records.Release()
	}
	if change != nil {
		if err := change(s.config.Capabilities); err != nil {
			return DryRun{}, newActError(verb, err, s, logs)
		}
	}
	rendered, err := s.dryRun(ctx, job{desired: desired, options: options, chart: chrt, values: values}, next)
	if err != nil {
		return DryRun{}, newActError(verb, err, s, logs)
	}
	return rendered, nil
}

// Offline describes a cluster that is not asked.
type Offline struct {
	// KubeVersion is the version of Kubernetes; empty is the version of the Helm SDK.
	KubeVersion string
	// APIVersions are served beside the kinds of Kubernetes, as GROUP/VERSION or GROUP/VERSION/KIND.
	APIVersions []string
}

// RenderOffline renders a release as an installation, without a connection to its cluster. Lookups of the chart find
// nothing. The error is an [*helmerr.Error].
func (c *Client) RenderOffline(ctx context.Context, desired model.Desired, options model.Options, chrt *chart.Chart,
	values map[string]any, cluster Offline,
) (DryRun, error) {
	logs := &helmerr.LogBuffer{Redactor: helmerr.NewRedactor(values, options.SecretValues)}
	s := newSession(driver.NewMemory(), nil, desired, logs)
	s.renderer = c.renderer
	s.config.Capabilities = chartutil.DefaultCapabilities.Copy()
	s.config.Capabilities.APIVersions = slices.Concat(s.config.Capabilities.APIVersions, cluster.APIVersions)
	if cluster.KubeVersion != "" {
		version, err := chartutil.ParseKubeVersion(cluster.KubeVersion)
		if err != nil {
			return DryRun{}, newActError(model.ActionInstall, fmt.Errorf("the version of Kubernetes: %w", err), nil, logs)
		}
		s.config.Capabilities.KubeVersion = *version
	}
	rendered, err := s.dryRun(ctx, job{desired: desired, options: options, chart: chrt, values: values},
		nextRelease(desired, model.Observation{}))
	if err != nil {
		return DryRun{}, newActError(model.ActionInstall, err, s, logs)
	}
	return rendered, nil
}

// dryRun renders a release. next is what templates see of it. For an adoption, the options of an upgrade apply, also if
// the templates see an installation.
func (s *session) dryRun(ctx context.Context, j job, next chartutil.ReleaseOptions) (rendered DryRun, err error) {
	rendered.Revision = next.Revision
	policy, skipsSchema, values := j.options.Install.CRDs, j.options.Install.DisableSchemaValidation, j.values
	if next.IsUpgrade || j.decision.Action == model.ActionAdopt {
		policy, skipsSchema = j.options.Upgrade.CRDs, j.options.Upgrade.DisableSchemaValidation
		if values, err = s.upgradeValues(j.desired, j.options.Upgrade.Values, values); err != nil {
			return rendered, err
		}
	}
	if err := rendering.CheckChart(j.chart); err != nil {
		return rendered, err
	}
	source := sourceOf(j.desired, j.chart, values)
	if !skipsSchema {
		if err := s.renderer.CheckValues(ctx, source); err != nil {
			return rendered, err
		}
	}
	if policy != model.CRDsSkip {
		files, err := s.renderer.CRDs(ctx, source)
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
	err = s.renderManifest(ctx, j, source, next, &rendered)
	return rendered, err
}

// announce makes templates see the kinds of CRDs that would be applied before the chart is rendered.
func (s *session) announce(rendered *DryRun, policy model.CRDPolicy) {
	capabilities := s.config.Capabilities
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
func (s *session) renderManifest(ctx context.Context, j job, source rendering.Source, next chartutil.ReleaseOptions,
	rendered *DryRun,
) (err error) {
	desired := j.desired
	install := s.newDryRun(desired, next.IsUpgrade)
	install.PostRenderer, err = s.renderer.PostRenderer(ctx, j.options.PostRender, desired.Namespace, tenantOf(desired))
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
	rendered.hooks = rls.Hooks
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
