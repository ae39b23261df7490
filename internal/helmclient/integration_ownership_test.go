// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// otherRelease installs another release with the given objects.
func (b *bench) otherRelease(t *testing.T, templates map[string]string) {
	t.Helper()
	other := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
	other.desired = helmtest.DesiredFor(b.namespace, "other", "a1", "v1")
	other.mustSettle(t)
}

// sharedObjects returns ConfigMaps "shared-0" and so on.
func sharedObjects(count int, value string) map[string]string {
	templates := map[string]string{}
	for i := range count {
		templates[fmt.Sprintf("shared-%d.yaml", i)] = helmtest.ConfigMap(fmt.Sprintf("shared-%d", i), value)
	}
	return templates
}

// TestIntegrationUninstallKeepsObjectsOfOtherReleases checks that an uninstallation keeps objects of another release.
// This release failed to create the objects, and the other release created them afterwards. The second case has so many
// objects that they are listed.
func TestIntegrationUninstallKeepsObjectsOfOtherReleases(t *testing.T) {
	for name, count := range map[string]int{"few": 1, "many": objectinfo.ManyReads + 1} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			templates := with(sharedObjects(count, "1"), "hook.yaml", hookService("refused", "pre-install"))
			run := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
			run.mustFail(t, run.later(t, 0), model.ActionInstall)
			b.wantNoConfigMap("shared-0")
			b.otherRelease(t, sharedObjects(count, "2"))
			if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i := range count {
				b.wantConfigMap(fmt.Sprintf("shared-%d", i), "2")
			}
			b.wantRecords(run.desired)
		})
	}
}

// TestIntegrationRollbackKeepsObjectsOfOtherReleases checks that rollbacks, and upgrades to fewer objects, keep objects
// of another release.
func TestIntegrationRollbackKeepsObjectsOfOtherReleases(t *testing.T) {
	for name, policy := range map[string]model.Policy{
		"rollback": {Upgrade: model.FailurePolicy{Remediate: model.RemediateRollback}},
		"upgrade":  {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			own := map[string]string{"own.yaml": helmtest.ConfigMap("own", "1")}
			run := b.newRun(helmtest.NewChart("1.0.0", own), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			run.policy = policy
			run.want("a2", helmtest.NewChart("2.0.0",
				with(with(own, "shared.yaml", helmtest.ConfigMap("shared-0", "1")), "hook.yaml",
					hookService("refused", "pre-upgrade"))))
			run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
			b.otherRelease(t, sharedObjects(1, "2"))
			if policy.Upgrade.Remediate == model.RemediateRollback {
				run.mustAct(t, run.later(t, 0), model.ActionRollback)
			} else {
				run.want("a3", helmtest.NewChart("3.0.0", own))
				run.mustAct(t, run.later(t, 0), model.ActionUpgrade)
			}
			b.wantConfigMap("shared-0", "2")
			b.wantConfigMap("own", "1")
		})
	}
}

// TestIntegrationUpgradeKeepsObjectsOfOtherReleases checks that an upgrade keeps an object that was handed over to
// another release and is no longer in the manifest.
func TestIntegrationUpgradeKeepsObjectsOfOtherReleases(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	b.patchConfigMap("first", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
	run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	run.mustSettle(t)
	b.wantConfigMap("first", "1")
	b.wantRecords(run.desired, "2 deployed", "1 superseded")
}

// TestIntegrationUninstallDeletesUnlabelledObjects checks that an uninstallation deletes objects without annotations of
// a release.
func TestIntegrationUninstallDeletesUnlabelledObjects(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", sharedObjects(objectinfo.ManyReads, "1")), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	b.patchConfigMap("shared-0", `{"metadata":{"annotations":null,"labels":null}}`)
	b.patchConfigMap("shared-1", `{"metadata":{"annotations":null}}`)
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range objectinfo.ManyReads {
		b.wantNoConfigMap(fmt.Sprintf("shared-%d", i))
	}
}

// TestIntegrationUninstallKeepsRecreatedObject checks that an object stays if another release re-creates it after it
// was read and before it is deleted.
func TestIntegrationUninstallKeepsRecreatedObject(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	replaced := false
	b.cutter.Last = func(req *http.Request) bool {
		if req.Method == http.MethodDelete && strings.HasSuffix(req.URL.Path, "/configmaps/first") && !replaced {
			replaced = true
			b.replaceConfigMap("first", "other")
		}
		return false
	}
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantConfigMap("first", "of other")
	b.wantNoConfigMap("demo-value")
	if !replaced {
		t.Error("it was not replaced")
	}
}

// replaceConfigMap deletes a ConfigMap and creates one of the same name for another release.
func (b *bench) replaceConfigMap(name, owner string) {
	b.t.Helper()
	maps := b.kube.CoreV1().ConfigMaps(b.namespace)
	object, err := maps.Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Error(err)
		return
	}
	if err := maps.Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Error(err)
	}
	object.ResourceVersion, object.UID = "", ""
	object.Annotations[inventory.HelmReleaseName], object.Data["key"] = owner, "of "+owner
	if _, err := maps.Create(b.t.Context(), object, metav1.CreateOptions{}); err != nil {
		b.t.Error(err)
	}
}

func (b *bench) patchConfigMap(name, patch string) {
	b.t.Helper()
	_, err := b.kube.CoreV1().ConfigMaps(b.namespace).Patch(b.t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestIntegrationUninstallDeletesLeftovers checks that an uninstallation deletes objects that only revisions before a
// failed revision have, even if the failed revision has no objects. It keeps objects with the keep policy.
func TestIntegrationUninstallDeletesLeftovers(t *testing.T) {
	kept := strings.Replace(helmtest.ConfigMap("kept", "1"), "name: kept",
		"name: kept\n  annotations: {helm.sh/resource-policy: keep}", 1)
	for name, objects := range map[string]map[string]string{
		"something to delete": {"value.yaml": helmtest.ValueConfigMap},
		"nothing to delete":   {},
		"only what is kept":   {"kept.yaml": kept},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{
				"value.yaml": helmtest.ValueConfigMap, "first.yaml": helmtest.ConfigMap("first", "1"), "kept.yaml": kept,
			}), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			run.want("a2", helmtest.NewChart("2.0.0", with(objects, "hook.yaml", hookService("refused", "pre-upgrade"))))
			run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
			if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantNoConfigMap("first")
			b.wantNoConfigMap("demo-value")
			b.wantConfigMap("kept", "1")
			b.wantRecords(run.desired)
		})
	}
}

// TestIntegrationRemediationStopsAfterTakeover checks that a release is not uninstalled after a failed attempt if
// another process has since taken it over.
func TestIntegrationRemediationStopsAfterTakeover(t *testing.T) {
	for name, meanwhile := range map[string]func(*testing.T, *bench){
		"reinstalled": func(t *testing.T, b *bench) {
			if _, err := action.NewUninstall(b.human()).Run("demo"); err != nil {
				t.Fatal(err)
			}
			b.humanInstall("demo", helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()))
		},
		"upgrade running": func(t *testing.T, b *bench) {
			releases := b.human().Releases
			last, err := releases.Last("demo")
			if err != nil {
				t.Fatal(err)
			}
			last.Version++
			last.Info.Status = release.StatusPendingUpgrade
			if err := releases.Create(last); err != nil {
				t.Fatal(err)
			}
		},
		"marked as deployed": func(_ *testing.T, b *bench) { b.setStatus("demo", 1, release.StatusDeployed) },
		"of another object": func(t *testing.T, b *bench) {
			_, err := b.kube.CoreV1().Secrets(b.namespace).Patch(t.Context(), records.NameOf("demo", 1), types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"`+model.LabelReleaseUID+`":"uid-9"}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			run := b.newRun(brokenChart("1.0.0"), map[string]any{"cidr": "1"})
			run.policy = model.Policy{Install: model.FailurePolicy{Remediate: model.RemediateUninstall}}
			run.mustFail(t, run.later(t, 0), model.ActionInstall)
			stale := run.later(t, 0)
			meanwhile(t, b)
			if _, err := run.act(t.Context(), stale); stale.Action != model.ActionUninstall ||
				!errors.Is(err, helmerr.ErrStale) {
				t.Errorf("%s: %v", stale.Action, err)
			}
			if _, ok := b.configMapValue("demo-value"); !ok {
				t.Error("it was uninstalled")
			}
		})
	}
}

// TestIntegrationKnownVersionsKeepObjectsOfOthers checks an action that deletes objects without a read. It keeps
// objects that belong to another owner since this process applied them. It deletes other changed objects.
func TestIntegrationKnownVersionsKeepObjectsOfOthers(t *testing.T) {
	all := map[string]string{}
	for _, name := range []string{"same", "changed", "given-away", "created-again", "kept"} {
		all[name+".yaml"] = helmtest.ConfigMap(name, "1")
	}
	for name, isUpgrade := range map[string]bool{"upgrade": true, "uninstallation": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			run := b.newRun(helmtest.NewChart("1.0.0", with(all, "value.yaml", helmtest.ValueConfigMap)),
				map[string]any{"cidr": "1"})
			run.mustSettle(t)
			b.patchConfigMap("changed", `{"data":{"key":"2"}}`)
			b.patchConfigMap("given-away", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
			b.patchConfigMap("kept", `{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`)
			if err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "created-again",
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			b.createForOther("created-again")
			b.cutter.Take()
			if isUpgrade {
				run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
				run.mustSettle(t)
			} else if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if slices.Contains(b.cutter.Take(), "GET /api/v1/namespaces/"+b.namespace+"/configmaps/same") {
				t.Error("an unchanged object was read")
			}
			b.wantNoConfigMap("same")
			b.wantNoConfigMap("changed")
			b.wantConfigMap("given-away", "1")
			b.wantConfigMap("created-again", "other")
			// An uninstallation uses only the policy in the manifest, as Helm does.
			if _, exists := b.configMapValue("kept"); exists != isUpgrade {
				t.Errorf("the object with the policy exists: %t", exists)
			}
		})
	}
}

// createForOther creates a ConfigMap that belongs to another release.
func (b *bench) createForOther(name string) {
	b.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		inventory.HelmReleaseName: "other", inventory.HelmReleaseNamespace: b.namespace,
	}}, Data: map[string]string{"key": "other"}}
	if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Create(b.t.Context(), object,
		metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// TestIntegrationCutKnownVersions checks that the same process completes an uninstallation that lost its connection.
// The process still knows the versions of objects that no longer exist. It must keep an object that another release
// created later.
func TestIntegrationCutKnownVersions(t *testing.T) {
	b := newBench(t)
	b.createNamespace()
	others := 0
	for after := 0; ; after++ {
		run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
		run.mustSettle(t)
		b.cutter.Take()
		b.cutter.After = after
		err := run.settleUninstall(t.Context())
		b.cutter.Take()
		b.cutter.After = -1
		if err == nil {
			break
		}
		_, exists := b.configMapValue("first")
		if !exists {
			others++
			b.createForOther("first")
		}
		if err := run.settleUninstall(t.Context()); err != nil {
			t.Fatalf("after %d requests: %v", after, err)
		}
		b.wantNoConfigMap("demo-value")
		b.wantRecords(run.desired)
		if exists {
			b.wantNoConfigMap("first")
			continue
		}
		b.wantConfigMap("first", "other")
		if err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if others == 0 {
		t.Error("no uninstallation was cut after the deletion of the object")
	}
}
