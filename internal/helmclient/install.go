// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// install installs the release, also over the kept history of an uninstalled release.
func (s *session) install(j job) error {
	renderer, err := s.prepare(j.desired, j.options, j.chart, j.values, false)
	if err != nil {
		return err
	}
	replace := j.decision.State == model.StateUninstalled ||
		j.decision.Recovery == decide.RecoverReplace && j.decision.FromRevision > 1
	if replace {
		// Helm limits the history on upgrades only; an install over a kept history adds to it as well.
		s.config.Releases.MaxHistory = j.options.Upgrade.HistoryLimit()
	}
	install := s.newInstall(j.desired, j.options.Install, replace)
	install.PostRenderer = renderer
	rendered, err := s.render(j.desired, j.chart, j.values, chartutil.ReleaseOptions{
		Name: j.desired.Name, Namespace: j.desired.Namespace, Revision: 1, IsInstall: true,
	})
	if err != nil {
		return err
	}
	// Helm changes the values it is given.
	_, err = install.Run(rendered, rendering.CopyValues(j.values))
	return err
}

// newInstall maps the options to Helm's.
func (s *session) newInstall(desired model.Desired, options model.InstallOptions, replace bool) *action.Install {
	install := action.NewInstall(s.config)
	install.ReleaseName = desired.Name
	install.Namespace = desired.Namespace
	install.Labels = model.DesiredLabels(desired)
	install.Timeout = options.ActionTimeout()
	install.DisableHooks = options.DisableHooks
	// prepare sees to both.
	install.CreateNamespace = false
	install.SkipCRDs = true
	install.TakeOwnership = options.TakeOwnership
	install.DisableOpenAPIValidation = options.DisableOpenAPIValidation
	install.Replace = replace
	// The check before the action did this, without files, network or values in its errors.
	install.SkipSchemaValidation = true
	return install
}
