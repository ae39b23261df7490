// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMayRun checks which hooks the options and the tests exclude. A hook stays if one of its events can happen.
func TestMayRun(t *testing.T) {
	t.Parallel()
	none := Options{Install: InstallOptions{DisableHooks: true}, Upgrade: UpgradeOptions{DisableHooks: true},
		Rollback: RollbackOptions{DisableHooks: true}, Uninstall: UninstallOptions{DisableHooks: true}}
	only := func(name string) Options { return Options{Test: TestOptions{Only: []string{name}}} }
	for _, tc := range []struct {
		events    string
		options   Options
		runsTests bool
		want      bool
	}{
		{"pre-install", Options{}, false, true},
		{"pre-install,post-install", Options{Install: none.Install}, false, false},
		{"pre-install, Post-Upgrade", Options{Install: none.Install}, false, true},
		{"post-rollback", Options{Rollback: none.Rollback}, false, false},
		{"pre-upgrade,pre-rollback,post-delete", Options{Upgrade: none.Upgrade, Rollback: none.Rollback}, false, true},
		{"pre-install,pre-upgrade,pre-rollback,pre-delete", none, true, false},
		{"unknown", none, false, true},
		{"test", Options{}, false, false},
		{"Test-Success", Options{}, false, false},
		{"test", none, true, true},
		{"test,post-install", Options{}, false, true},
		{"test", only("smoke"), true, true},
		{"test", only("other"), true, false},
		{"test", Options{Test: TestOptions{Except: []string{"smoke"}}}, true, false},
	} {
		hook := &metav1.ObjectMeta{Name: "smoke", Annotations: map[string]string{"helm.sh/hook": tc.events}}
		if got := tc.options.MayRun(hook, tc.runsTests); got != tc.want {
			t.Errorf("%q, tests run: %t, %+v: %t", tc.events, tc.runsTests, tc.options, got)
		}
	}
}
