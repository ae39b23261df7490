// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationUninstallingReleaseIsDesiredAgain has an uninstallation that failed in its hook, before it deleted an
// object. If the release is desired again, HelmOp keeps its objects, and creates only deleted objects again.
func TestIntegrationUninstallingReleaseIsDesiredAgain(t *testing.T) {
	byHelmOp := func(t *testing.T, run *releaseRun) {
		t.Helper()
		decision, err := run.decideUninstall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run.mustFail(t, decision, model.ActionUninstall)
	}
	for name, tc := range map[string]struct {
		uninstall func(t *testing.T, b *bench, run *releaseRun)
		// change changes what is desired after the uninstallation failed.
		change func(run *releaseRun)
		// waits means that the decision is to wait at first.
		waits bool
	}{
		"by the same object": {
			uninstall: func(t *testing.T, _ *bench, run *releaseRun) { t.Helper(); byHelmOp(t, run) },
			change:    func(*releaseRun) {},
		},
		"by a former object": {
			uninstall: func(t *testing.T, _ *bench, run *releaseRun) { t.Helper(); byHelmOp(t, run) },
			change:    func(run *releaseRun) { run.desired.UID = "uid-again" },
			waits:     true,
		},
		"by another HelmOp": {
			uninstall: func(t *testing.T, _ *bench, run *releaseRun) { t.Helper(); byHelmOp(t, run) },
			change: func(run *releaseRun) {
				run.desired.Owner, run.desired.UID, run.policy.TakeOwnership = "default.other", "uid-other", true
			},
			waits: true,
		},
		"by helm": {
			uninstall: func(t *testing.T, b *bench, _ *releaseRun) {
				t.Helper()
				if _, err := action.NewUninstall(b.human()).Run("demo"); err == nil {
					t.Error("helm uninstall did not fail")
				}
			},
			change: func(*releaseRun) {},
			waits:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			templates := helmtest.TwoConfigMaps()
			templates["hook.yaml"] = hookService("refused", "pre-delete")
			run := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			before := b.configMapUID("first")
			tc.uninstall(t, b, run)
			b.wantRecords(run.desired, "1 uninstalling")
			former := b.configMapUID("demo-value")
			finish := b.blockDeletion("demo-value")
			deleted := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "demo-value", metav1.DeleteOptions{})
			if deleted != nil {
				t.Fatal(deleted)
			}
			tc.change(run)
			if decision := run.later(t, 0); (decision.Action == model.ActionWait) != tc.waits {
				t.Errorf("decided %+v", decision)
			}
			decision := run.later(t, time.Hour)
			if decision.Recovery != decide.RecoverFail {
				t.Errorf("decided %+v", decision)
			}
			run.options.Progress = whenWaiting(finish)
			run.mustAct(t, decision, model.ActionRecoverThenUpgrade)
			b.wantRecords(run.desired, "2 deployed", "1 failed")
			b.wantNewConfigMap("demo-value", former)
			if b.configMapUID("first") != before {
				t.Error("the ConfigMap was created again")
			}
		})
	}
}

// whenWaiting returns a function for Options.Progress. It calls then when the action waits for the end of deletions.
func whenWaiting(then func()) func(string) {
	return func(what string) {
		if what == "waiting for the end of deletions" {
			then()
		}
	}
}

// wantNewConfigMap checks that a ConfigMap has the value 1, and another UID than before.
func (b *bench) wantNewConfigMap(name string, former types.UID) {
	b.t.Helper()
	if uid := b.configMapUID(name); uid == former {
		b.t.Errorf("the action changed ConfigMap %s, which was being deleted", name)
	}
	b.wantConfigMap(name, "1")
}

// TestIntegrationActionsAwaitDeletions checks that each action that applies objects creates an object again that was
// being deleted, whatever the history of the release is.
func TestIntegrationActionsAwaitDeletions(t *testing.T) {
	refused := func(events string) map[string]string {
		templates := helmtest.TwoConfigMaps()
		templates["hook.yaml"] = hookService("refused", events)
		return templates
	}
	errStop := errors.New("the manager stops")
	for name, tc := range map[string]struct {
		// templates are the templates of the installed chart.
		templates map[string]string
		// before begins the deletion. The action follows.
		before func(t *testing.T, run *releaseRun, deleteValue func())
		action model.Action
		want   []string
	}{
		"retry of the upgrade after an uninstallation": {
			templates: refused("pre-delete"),
			before: func(t *testing.T, run *releaseRun, deleteValue func()) {
				t.Helper()
				decision, err := run.decideUninstall(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				run.mustFail(t, decision, model.ActionUninstall)
				deleteValue()
				stopped, stop := context.WithCancelCause(t.Context())
				run.options.Stop, run.options.Progress = stopped, whenWaiting(func() { stop(errStop) })
				run.mustFail(t, run.later(t, 0), model.ActionRecoverThenUpgrade)
				run.options.Stop = nil
			},
			action: model.ActionUpgrade,
			want:   []string{"3 deployed", "2 failed", "1 failed"},
		},
		"installation after a complete uninstallation": {
			templates: helmtest.TwoConfigMaps(),
			before: func(t *testing.T, run *releaseRun, _ func()) {
				t.Helper()
				if err := run.settleUninstall(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			action: model.ActionInstall,
			want:   []string{"1 deployed"},
		},
		"rollback": {
			templates: helmtest.TwoConfigMaps(),
			before: func(t *testing.T, run *releaseRun, deleteValue func()) {
				t.Helper()
				run.policy = helmtest.WithRollback
				run.want("a2", helmtest.NewChart("2.0.0", refused("pre-upgrade")))
				run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
				deleteValue()
			},
			action: model.ActionRollback,
			want:   []string{"3 deployed", "2 failed", "1 superseded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			run := b.newRun(helmtest.NewChart("1.0.0", tc.templates), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			former, finish := b.configMapUID("demo-value"), b.blockDeletion("demo-value")
			tc.before(t, run, func() {
				err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "demo-value", metav1.DeleteOptions{})
				if err != nil {
					t.Fatal(err)
				}
			})
			run.options.Progress = whenWaiting(finish)
			run.mustAct(t, run.later(t, time.Hour), tc.action)
			b.wantRecords(run.desired, tc.want...)
			b.wantNewConfigMap("demo-value", former)
		})
	}
}

// blockDeletion adds a finalizer to a ConfigMap. The result removes the finalizer.
func (b *bench) blockDeletion(name string) (finish func()) {
	b.t.Helper()
	patch := func(finalizers string) error {
		_, err := b.kube.CoreV1().ConfigMaps(b.namespace).Patch(b.t.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		return err
	}
	if err := patch(`["test.example/slow"]`); err != nil {
		b.t.Fatal(err)
	}
	return func() {
		if err := patch("null"); err != nil {
			b.t.Errorf("the end of the deletion: %v", err)
		}
	}
}

// TestIntegrationInterruptedUninstallationStaysLimited checks that a release that worked does not count as a failed
// installation after an uninstallation and the recovery from it failed. An object of the release may have lost its
// annotations.
func TestIntegrationInterruptedUninstallationStaysLimited(t *testing.T) {
	b := newBench(t)
	templates := helmtest.TwoConfigMaps()
	templates["hook.yaml"] = hookService("refused", "pre-delete,pre-upgrade")
	run := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
	run.policy = helmtest.WithUninstall
	run.mustSettle(t)
	decision, err := run.decideUninstall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run.mustFail(t, decision, model.ActionUninstall)
	run.mustFail(t, run.later(t, 0), model.ActionRecoverThenUpgrade)
	b.wantRecords(run.desired, "2 failed", "1 failed")
	if decision := run.later(t, time.Minute); decision.Action != model.ActionUpgrade {
		t.Errorf("decided %+v", decision)
	}
	var asked []model.Loss
	run.options.Admit = func(loss model.Loss) error {
		asked = append(asked, loss)
		return nil
	}
	b.patchConfigMap("first", `{"metadata":{"annotations":null}}`)
	run.options.Uninstall.DisableHooks = true
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantNoConfigMap("first")
	if len(asked) != 1 || !asked[0].Uninstalls || asked[0].NeverWorked {
		t.Errorf("asked for %+v", asked)
	}
}
