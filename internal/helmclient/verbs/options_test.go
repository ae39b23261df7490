// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"testing"
	"time"

	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

func TestOptionMapping(t *testing.T) {
	t.Parallel()
	no, zero := false, 0
	desired := helmtest.DesiredFor("apps", "demo", "a1", "v1")
	s := &verb{Session: session.New(t.Context(), driver.NewMemory(), &kubefake.PrintingKubeClient{}, nil, desired,
		&helmerr.LogBuffer{})}

	install := s.newInstall(desired, model.InstallOptions{}, false)
	if install.CreateNamespace || !install.SkipCRDs || install.Timeout != model.DefaultTimeout || install.Wait ||
		install.Atomic || install.Replace || install.EnableDNS {
		t.Errorf("defaults of an install: %+v", install.Timeout)
	}
	install = s.newInstall(desired,
		model.InstallOptions{Timeout: time.Second, DisableHooks: true, CreateNamespace: &no, CRDs: model.CRDsSkip,
			TakeOwnership: true, DisableOpenAPIValidation: true}, true)
	if install.CreateNamespace || install.Timeout != time.Second || !install.DisableHooks ||
		!install.TakeOwnership || !install.DisableOpenAPIValidation || !install.Replace {
		t.Error("options of an install are lost")
	}
	upgrade := s.newUpgrade(desired, model.UpgradeOptions{})
	if upgrade.MaxHistory != model.DefaultMaxHistory || upgrade.Timeout != model.DefaultTimeout || upgrade.Wait ||
		upgrade.Atomic || !upgrade.ResetValues {
		t.Error("defaults of an upgrade")
	}
	upgrade = s.newUpgrade(desired,
		model.UpgradeOptions{Timeout: time.Second, DisableHooks: true, Force: true, MaxHistory: &zero,
			CleanupOnFail: true, TakeOwnership: true, DisableOpenAPIValidation: true})
	if upgrade.MaxHistory != 0 || upgrade.Timeout != time.Second || !upgrade.DisableHooks || !upgrade.Force ||
		!upgrade.CleanupOnFail || !upgrade.TakeOwnership || !upgrade.DisableOpenAPIValidation {
		t.Error("options of an upgrade are lost")
	}
	rollback := s.newRollback(decide.Decision{RollbackTo: 3}, model.Options{})
	if rollback.Version != 3 || rollback.MaxHistory != model.DefaultMaxHistory ||
		rollback.Timeout != model.DefaultTimeout || rollback.Wait || rollback.Recreate {
		t.Error("defaults of a rollback")
	}
	rollback = s.newRollback(decide.Decision{RollbackTo: 3},
		model.Options{Upgrade: model.UpgradeOptions{MaxHistory: &zero},
			Rollback: model.RollbackOptions{Timeout: time.Second, DisableHooks: true, Force: true, CleanupOnFail: true}})
	if rollback.MaxHistory != 0 || rollback.Timeout != time.Second || !rollback.DisableHooks || !rollback.Force ||
		!rollback.CleanupOnFail {
		t.Error("options of a rollback are lost")
	}
	tests := s.newTest(desired, model.TestOptions{})
	if tests.Timeout != model.DefaultTimeout || tests.Namespace != "apps" ||
		len(tests.Filters["name"])+len(tests.Filters["!name"]) > 0 {
		t.Error("defaults of tests")
	}
	tests = s.newTest(desired, model.TestOptions{Timeout: time.Second, Only: []string{"a"}, Except: []string{"b"}})
	if tests.Timeout != time.Second || tests.Filters["name"][0] != "a" || tests.Filters["!name"][0] != "b" {
		t.Error("options of tests are lost")
	}
	if s.newUninstall(model.UninstallOptions{}).DeletionPropagation != "background" ||
		s.newUninstall(model.UninstallOptions{Propagation: "Orphan"}).DeletionPropagation != "orphan" {
		t.Error("the propagation of deletions is lost")
	}
	uninstall := s.newUninstall(model.UninstallOptions{DisableHooks: true, KeepHistory: true})
	if !uninstall.DisableHooks || !uninstall.KeepHistory || uninstall.Wait || uninstall.IgnoreNotFound ||
		uninstall.Timeout != model.DefaultTimeout {
		t.Error("options of an uninstall are lost")
	}
}
