// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"
	"time"
)

func TestOptionsDigest(t *testing.T) {
	t.Parallel()
	yes, no, ten, zero := true, false, 10, 0
	base := OptionsDigest(Options{})
	// This digest must never change: another digest would upgrade every release in every cluster.
	if want := "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"; base != want {
		t.Errorf("digest of the defaults = %s, want %s", base, want)
	}
	same := map[string]Options{
		"namespace created as by default": {Install: InstallOptions{CreateNamespace: &yes}},
		"history as by default":           {Upgrade: UpgradeOptions{MaxHistory: &ten}},
		"timeouts": {Install: InstallOptions{Timeout: time.Hour},
			Upgrade: UpgradeOptions{Timeout: time.Hour}},
		"uninstall": {Uninstall: UninstallOptions{Timeout: time.Hour, DisableHooks: true,
			KeepHistory: true, Propagation: "Orphan"}},
		"rollback": {Rollback: RollbackOptions{Timeout: time.Hour, DisableHooks: true, Force: true,
			CleanupOnFail: true}},
		"tests": {Test: TestOptions{Timeout: time.Hour, Only: []string{"a"},
			Except: []string{"b"}}},
		"post-rendering": {PostRender: &PostRender{Images: []ImageOverride{{Name: "a"}}}},
		"empty metadata": {Install: InstallOptions{NamespaceLabels: map[string]string{}}},
	}
	for name, options := range same {
		if OptionsDigest(options) != base {
			t.Errorf("%s: changes the digest", name)
		}
	}
	// This digest was released and must not change.
	if got, want := OptionsDigest(Options{Install: InstallOptions{CRDs: CRDsSkip}}),
		"d9a13a54e0d9238302211f5c0989559c4948a68e21b654f44d080e511b95b1e0"; got != want {
		t.Errorf("digest without CRDs = %s, want %s", got, want)
	}
	seen := map[string]string{base: "defaults"}
	for name, options := range map[string]Options{
		"install without hooks":      {Install: InstallOptions{DisableHooks: true}},
		"no namespace":               {Install: InstallOptions{CreateNamespace: &no}},
		"no CRDs":                    {Install: InstallOptions{CRDs: CRDsSkip}},
		"install takes ownership":    {Install: InstallOptions{TakeOwnership: true}},
		"install without validation": {Install: InstallOptions{DisableOpenAPIValidation: true}},
		"upgrade without hooks":      {Upgrade: UpgradeOptions{DisableHooks: true}},
		"force":                      {Upgrade: UpgradeOptions{Force: true}},
		"unlimited history":          {Upgrade: UpgradeOptions{MaxHistory: &zero}},
		"cleanup":                    {Upgrade: UpgradeOptions{CleanupOnFail: true}},
		"upgrade takes ownership":    {Upgrade: UpgradeOptions{TakeOwnership: true}},
		"upgrade without validation": {Upgrade: UpgradeOptions{DisableOpenAPIValidation: true}},
		"install replaces CRDs":      {Install: InstallOptions{CRDs: CRDsCreateReplace}},
		"upgrade without CRDs":       {Upgrade: UpgradeOptions{CRDs: CRDsSkip}},
		"upgrade replaces CRDs":      {Upgrade: UpgradeOptions{CRDs: CRDsCreateReplace}},
		"install without schema":     {Install: InstallOptions{DisableSchemaValidation: true}},
		"upgrade without schema":     {Upgrade: UpgradeOptions{DisableSchemaValidation: true}},
		"values reused":              {Upgrade: UpgradeOptions{Values: ValuesReuse}},
		"values reset, then reused":  {Upgrade: UpgradeOptions{Values: ValuesResetThenReuse}},
		"labels of the namespace":    {Install: InstallOptions{NamespaceLabels: map[string]string{"a": "b"}}},
		"annotations of it":          {Install: InstallOptions{NamespaceAnnotations: map[string]string{"a": "b"}}},
	} {
		digest := OptionsDigest(options)
		if other, ok := seen[digest]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[digest] = name
	}
}
