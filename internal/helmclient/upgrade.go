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
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
)

// upgrade makes a new revision of the release.
func (s *session) upgrade(desired Desired, options Options, chrt *chart.Chart, values map[string]any) error {
	renderer, err := s.prepare(desired, options, chrt, values, true)
	if err != nil {
		return err
	}
	upgrade := s.newUpgrade(desired, options.Upgrade)
	upgrade.PostRenderer = renderer
	_, err = upgrade.Run(desired.Name, chrt, values)
	return err
}

// newUpgrade maps the options to Helm's.
func (s *session) newUpgrade(desired Desired, options UpgradeOptions) *action.Upgrade {
	upgrade := action.NewUpgrade(s.config)
	upgrade.Namespace = desired.Namespace
	upgrade.SkipCRDs = true
	upgrade.Labels = desiredLabels(desired)
	upgrade.Timeout = options.timeout()
	upgrade.DisableHooks = options.DisableHooks
	upgrade.Force = options.Force
	upgrade.MaxHistory = options.maxHistory()
	upgrade.CleanupOnFail = options.CleanupOnFail
	upgrade.TakeOwnership = options.TakeOwnership
	upgrade.DisableOpenAPIValidation = options.DisableOpenAPIValidation
	// Without it Helm reuses the previous values where the desired ones are empty.
	upgrade.ResetValues = true
	upgrade.SkipSchemaValidation = true
	return upgrade
}
