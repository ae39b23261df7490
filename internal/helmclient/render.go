// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// tenantOf returns the tenant of a release: the namespace of its owner.
func tenantOf(desired model.Desired) string {
	namespace, _, _ := strings.Cut(desired.Owner, ".")
	return namespace
}

func sourceOf(desired model.Desired, chrt *chart.Chart, values map[string]any) rendering.Source {
	return rendering.Source{Chart: chrt, Values: values, Tenant: tenantOf(desired)}
}

// check checks the chart and the values as far as possible without the cluster.
func (j job) check(ctx context.Context, renderer *rendering.Renderer) error {
	if !j.decision.Action.RendersChart() {
		return nil
	}
	if err := rendering.CheckChart(j.chart); err != nil {
		return err
	}
	// Values that the upgrade merges with previous values cannot be validated yet.
	upgrades := !j.decision.Action.Installs()
	merges := upgrades && j.options.Upgrade.Values != model.ValuesReset
	if merges || j.options.SkipsSchema(j.decision.Action) {
		return nil
	}
	return renderer.CheckValues(ctx, sourceOf(j.desired, j.chart, j.values))
}

// render renders a chart for the cluster of the action and returns a chart of literal templates for Helm. The record of
// the revision gets the original chart.
func (s *session) render(desired model.Desired, chrt *chart.Chart, values map[string]any,
	release chartutil.ReleaseOptions,
) (*chart.Chart, error) {
	options := rendering.Options{Release: release, Capabilities: s.config.Capabilities}
	if s.config.RESTClientGetter != nil {
		config, err := s.config.RESTClientGetter.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		options.Lookup = engine.NewLookupFunction(config)
	}
	rendered, err := s.renderer.Render(s.context(), sourceOf(desired, chrt, values), options)
	if err != nil {
		return nil, err
	}
	s.storage.Rendered = &records.RenderedRevision{Chart: rendered.Recorded}
	if release.IsUpgrade {
		s.storage.Rendered.Revision = release.Revision
	}
	return rendered.Literal, nil
}

// nextRevision returns the number of the next revision for the templates. Its errors are the errors of Helm's upgrade.
func (s *session) nextRevision(name string) (int, error) {
	last, err := s.config.Releases.Last(name)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
		return 0, driver.NewErrNoDeployedReleases(name)
	case err != nil:
		return 0, err
	case last.Info != nil && last.Info.Status.IsPending():
		return 0, helmerr.New(helmerr.ErrStale, "another operation (install/upgrade/rollback) is in progress")
	}
	return last.Version + 1, nil
}
