// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// install installs the release. If the release was uninstalled and its history was kept, the installation adds to the
// history.
func (s *session) install(j job) error {
	renderer, err := s.prepare(j.desired, j.options, j.chart, j.values, false)
	if err != nil {
		return err
	}
	replace := j.decision.State == model.StateUninstalled ||
		j.decision.Recovery == decide.RecoverReplace && j.decision.FromRevision > 1
	if replace {
		// Helm limits the history only on upgrades, but an installation over a kept history also adds a revision.
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
	if j.decision.State == model.StateAbsent && j.decision.Recovery == decide.RecoverNothing {
		s.namespace.AssumeMissing()
	}
	// Helm changes the values that it receives.
	_, err = install.Run(rendered, rendering.CopyValues(j.values))
	if errors.Is(err, apply.ErrNamespaceExists) {
		_, err = install.Run(rendered, rendering.CopyValues(j.values))
	}
	return err
}

// newInstall returns Helm's install action with the options.
func (s *session) newInstall(desired model.Desired, options model.InstallOptions, replace bool) *action.Install {
	install := action.NewInstall(s.config)
	install.ReleaseName = desired.Name
	install.Namespace = desired.Namespace
	install.Labels = model.DesiredLabels(desired)
	install.Timeout = options.ActionTimeout()
	install.DisableHooks = options.DisableHooks
	// prepare and the Namespacer do both.
	install.CreateNamespace = false
	install.SkipCRDs = true
	install.TakeOwnership = options.TakeOwnership
	install.DisableOpenAPIValidation = options.DisableOpenAPIValidation
	install.Replace = replace
	// job.check has validated the values, without files and network, and with no values in its errors.
	install.SkipSchemaValidation = true
	return install
}
