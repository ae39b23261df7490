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
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/storage/driver"
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
	if last, err := s.config.Releases.Last(desired.Name); err == nil {
		// Its hooks are made of these values.
		s.logs.hide(last.Config)
	}
	s.onlyDeletes()
	_, err := s.newUninstall(options).Run(desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	return err
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
