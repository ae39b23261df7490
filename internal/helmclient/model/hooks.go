// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// formerTestEvent is the name of [release.HookTest] in Helm 2. Helm still accepts it.
const formerTestEvent release.HookEvent = "test-success"

// MayRun reports whether an action on the release can run a hook. runsTests means that HelmOp runs the tests of the
// chart.
func (o Options) MayRun(hook metav1.Object, runsTests bool) bool {
	for event := range strings.SplitSeq(hook.GetAnnotations()[release.HookAnnotation], ",") {
		runs := true
		switch release.HookEvent(strings.ToLower(strings.TrimSpace(event))) {
		case release.HookPreInstall, release.HookPostInstall:
			runs = !o.Install.DisableHooks
		case release.HookPreUpgrade, release.HookPostUpgrade:
			runs = !o.Upgrade.DisableHooks
		case release.HookPreRollback, release.HookPostRollback:
			runs = !o.Rollback.DisableHooks
		case release.HookPreDelete, release.HookPostDelete:
			runs = !o.Uninstall.DisableHooks
		case release.HookTest, formerTestEvent:
			runs = runsTests && o.Test.selects(hook.GetName())
		}
		if runs {
			return true
		}
	}
	return false
}

// selects reports whether a test with a name runs.
func (o TestOptions) selects(name string) bool {
	return !slices.Contains(o.Except, name) && (len(o.Only) == 0 || slices.Contains(o.Only, name))
}
