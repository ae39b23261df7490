// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/postrender"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// Render renders a chart for the cluster of the action. It returns a chart of literal templates for Helm. The record of
// the revision gets the original chart.
func (s *Session) Render(source rendering.Source, release chartutil.ReleaseOptions) (*chart.Chart, error) {
	options := rendering.Options{Release: release, Capabilities: s.Config.Capabilities}
	if s.Config.RESTClientGetter != nil {
		config, err := s.Config.RESTClientGetter.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		options.Lookup = engine.NewLookupFunction(config)
	}
	rendered, err := s.RenderHeld(source, options)
	if err != nil {
		return nil, err
	}
	s.Storage.Rendered = &records.RenderedRevision{Chart: rendered.Recorded}
	if release.IsUpgrade {
		s.Storage.Rendered.Revision = release.Revision
	}
	return rendered.Literal, nil
}

// RenderHeld renders a chart, and reserves memory for Helm to parse the result, see [actionmemory.Lease.Render].
func (s *Session) RenderHeld(source rendering.Source, options rendering.Options) (*rendering.Rendered, error) {
	rendered, err := s.Renderer.Render(s.Ctx, source, options)
	if err != nil {
		return nil, err
	}
	return rendered, s.Memory.Render(rendered.Weight)
}

// DryRun returns Helm's install action for a chart of literal templates. The action renders the chart and sends no
// request.
func (s *Session) DryRun(desired model.Desired, upgrade bool) *action.Install {
	install := action.NewInstall(&action.Configuration{Log: s.Logs.Printf, Capabilities: s.Config.Capabilities})
	install.ReleaseName, install.Namespace, install.Labels = desired.Name, desired.Namespace, model.DesiredLabels(desired)
	install.ClientOnly, install.DryRun, install.SkipCRDs, install.SkipSchemaValidation = true, true, true, true
	install.IsUpgrade = upgrade
	install.KubeVersion = &s.Config.Capabilities.KubeVersion
	return install
}

// PostRenderer returns Helm's post-renderer of a job. It returns nil if the job has no changes for a post-renderer.
func (s *Session) PostRenderer(j Job) (postrender.PostRenderer, error) {
	return s.Renderer.PostRenderer(s.Ctx, j.Options.PostRender, j.Desired.Namespace, j.Source(nil))
}

// UpgradeValues returns the values of an upgrade. According to the policy, it merges the values of the job over the
// values of the previous Helm revision. A null in the desired values removes a value, even if the chart has a default
// for the value. Helm's own merge would drop the null and restore the default. isPublic is true if the result has no
// value from a Secret.
func (s *Session) UpgradeValues(j Job) (values map[string]any, isPublic bool, err error) {
	desiredValues, policy := rendering.CopyValues(j.Values), j.Options.Upgrade.Values
	if policy == model.ValuesReset {
		return desiredValues, j.HasPublicValues(), nil
	}
	before, err := s.Previous(j.Desired.Name)
	if err != nil {
		return nil, false, fmt.Errorf("reading the values of the previous Helm revision: %w", err)
	}
	given := rendering.CopyValues(before.Config)
	if policy == model.ValuesReuse && before.Chart != nil {
		given, err = chartutil.CoalesceValues(rendering.CopyChart(before.Chart), given)
		if err != nil {
			return nil, false, helmerr.New(helmerr.ErrInvalidChart, "the values of Helm revision %d cannot be computed",
				before.Version)
		}
	}
	s.HideValues(before)
	s.Logs.Hide(given)
	return chartutil.MergeTables(desiredValues, given), j.HasPublicValues() && records.HasPublicValues(before), nil
}
