// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// TestIntegrationObjectsTakenOverStay checks that objects stay which a failed revision only took over, and that objects
// go which it created.
func TestIntegrationObjectsTakenOverStay(t *testing.T) {
	own := map[string]string{"value.yaml": helmtest.ValueConfigMap}
	broken := with(with(with(own, "theirs.yaml", helmtest.ConfigMap("theirs", "new")), "left.yaml",
		helmtest.ConfigMap("left", "1")), "broken.yaml", brokenService)
	for name, test := range map[string]struct {
		isFirst bool
		policy  model.Policy
		// isForgotten means that Helm has deleted the record of the attempt that created the object.
		isForgotten bool
		// isBetween means that another client creates the object between two attempts, instead of before the first.
		isBetween bool
		// change leads away from the failed revision.
		change func(*releaseRun)
		want   model.Action
	}{
		"revert": {want: model.ActionUpgrade,
			change: func(run *releaseRun) { run.want("a1", helmtest.NewChart("1.0.0", own)) }},
		"revert after many attempts": {isForgotten: true, want: model.ActionUpgrade,
			change: func(run *releaseRun) { run.want("a1", helmtest.NewChart("1.0.0", own)) }},
		"failed installation after many attempts": {isFirst: true, isForgotten: true, want: model.ActionUpgrade,
			change: func(run *releaseRun) { run.want("a3", helmtest.NewChart("3.0.0", own)) }},
		"rollback": {policy: helmtest.WithRollback, want: model.ActionRollback, change: func(*releaseRun) {}},
		"failed installation": {isFirst: true, want: model.ActionUpgrade,
			change: func(run *releaseRun) { run.want("a3", helmtest.NewChart("3.0.0", own)) }},
		"revert after a second attempt": {isBetween: true, want: model.ActionUpgrade,
			change: func(run *releaseRun) { run.want("a1", helmtest.NewChart("1.0.0", own)) }},
		"second attempt": {isFirst: true, isBetween: true, want: model.ActionUpgrade,
			change: func(run *releaseRun) { run.want("a3", helmtest.NewChart("3.0.0", own)) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.createNamespace()
			b.createTheirs()
			run := b.newRun(helmtest.NewChart("1.0.0", own), map[string]any{"cidr": "1"})
			run.policy, run.options.Install.TakeOwnership, run.options.Upgrade.TakeOwnership = test.policy, true, true
			action := model.ActionInstall
			if !test.isFirst {
				run.mustSettle(t)
				action = model.ActionUpgrade
			}
			run.failing(t, "a2", helmtest.NewChart("2.0.0", broken), action)
			b.wantConfigMap("theirs", "new")
			b.wantConfigMap("left", "1")
			if test.isBetween {
				b.deleteTheirs()
				b.createTheirs()
				// The controller of an object may annotate it.
				b.patchConfigMap("left", `{"metadata":{"annotations":{"controller.test/revision":"1"}}}`)
				run.failing(t, "a4", helmtest.NewChart("2.1.0", with(broken, "left.yaml", helmtest.ConfigMap("left", "2"))),
					model.ActionUpgrade)
				b.wantConfigMap("theirs", "new")
				b.wantConfigMap("left", "2")
			}
			if test.isForgotten {
				run.failUntilForgotten(t, b, "left")
			}
			test.change(run)
			run.mustAct(t, run.later(t, 0), test.want)
			if _, ok := b.configMapValue("theirs"); !ok {
				t.Error("the object that the failed revision took over is gone")
			}
			b.wantNoConfigMap("left")
		})
	}
}

// createTheirs creates the ConfigMap "theirs" as a client that is not HelmOp.
func (b *bench) createTheirs() {
	b.t.Helper()
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string]string{"key": "theirs"}}
	maps := b.kube.CoreV1().ConfigMaps(b.namespace)
	if _, err := maps.Create(b.t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// deleteTheirs deletes the ConfigMap "theirs".
func (b *bench) deleteTheirs() {
	b.t.Helper()
	if err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(b.t.Context(), "theirs", metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// failUntilForgotten repeats failing upgrades until all records of failed revisions are younger than a ConfigMap.
func (r *releaseRun) failUntilForgotten(t *testing.T, b *bench, configMap string) {
	t.Helper()
	r.options.Upgrade.MaxHistory = new(2)
	unlimited := model.FailurePolicy{Retries: helmtest.Retries(-1)}
	r.policy = model.Policy{Install: unlimited, Upgrade: unlimited}
	made, err := b.kube.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), configMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r.mustFail(t, r.later(t, time.Hour), model.ActionUpgrade)
		list, err := b.kube.CoreV1().Secrets(b.namespace).List(t.Context(), metav1.ListOptions{
			LabelSelector: model.HelmLabelStatus + "=" + release.StatusFailed.String()})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(list.Items, func(record corev1.Secret) bool {
			return !record.CreationTimestamp.After(made.CreationTimestamp.Time)
		}) {
			return
		}
	}
}

// TestIntegrationCRDMovesToFolder checks that an upgrade keeps a CRD, and with it all custom resources, if the chart
// moves the CRD from its templates to its folder crds. A rollback keeps a CRD that only moves back. The folder may be
// that of a subchart which Chart.yaml does not declare, so that Helm's record does not show the subchart.
func TestIntegrationCRDMovesToFolder(t *testing.T) {
	for name, test := range map[string]struct {
		policy     model.CRDPolicy
		isSubchart bool
	}{
		"create":   {policy: model.CRDsCreate},
		"skip":     {policy: model.CRDsSkip},
		"subchart": {policy: model.CRDsCreate, isSubchart: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			group := b.namespace + ".moves.test"
			crd, at := helmtest.CrdOf(group, "v1"), crds.Path+"/widgets."+group
			own, crdFile := map[string]string{"value.yaml": helmtest.ValueConfigMap}, map[string]string{"crd.yaml": crd}
			inTemplates, inFolder := helmtest.NewChart("1.0.0", with(own, "crd.yaml", crd)),
				helmtest.ChartWithCRDs("2.0.0", own, crdFile)
			if test.isSubchart {
				subchart := helmtest.ChartWithCRDs("1.0.0", nil, crdFile)
				subchart.Metadata.Name = "sub"
				inFolder = helmtest.NewChart("2.0.0", own)
				inFolder.AddDependency(subchart)
			}
			run := b.newRun(inTemplates, map[string]any{"cidr": "1"})
			run.policy, run.options.Upgrade.CRDs = helmtest.WithRollback, test.policy
			var lost []model.Loss
			run.options.Admit = func(loss model.Loss) error {
				lost = append(lost, loss)
				return nil
			}
			run.mustSettle(t)
			before := b.get(at).GetUID()

			run.want("a2", inFolder)
			plan, err := b.client.Plan(t.Context(), b.target, run.desired, run.policy, model.Past{}, run.options, run.chart,
				run.values)
			deletes := func(change model.Change) bool { return change.Kind == model.ChangeDelete }
			if err != nil || slices.ContainsFunc(plan.Changes, deletes) {
				t.Errorf("plan %+v, %v", plan.Changes, err)
			}
			run.mustSettle(t)
			if crd := b.get(at); crd == nil || crd.GetUID() != before || crd.GetDeletionTimestamp() != nil {
				t.Fatal("the upgrade deleted the CRD")
			}

			run.want("a3", inTemplates)
			run.mustSettle(t)
			run.past.Unhealthy = true
			run.mustAct(t, run.later(t, 0), model.ActionRollback)
			if crd := b.get(at); crd == nil || crd.GetUID() != before || crd.GetDeletionTimestamp() != nil {
				t.Error("the rollback deleted the CRD")
			}
			if len(lost) > 0 {
				t.Errorf("asked for %+v", lost)
			}
		})
	}
}

// TestIntegrationObjectBecomesHook checks that an upgrade keeps the object of a hook if the former revision has the
// object in its manifest, also in another version of its kind.
func TestIntegrationObjectBecomesHook(t *testing.T) {
	b := newBench(t)
	scaler := func(version, metadata string) string {
		return "apiVersion: autoscaling/" + version + "\nkind: HorizontalPodAutoscaler\nmetadata: {name: scaler" + metadata +
			"}\nspec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}}\n"
	}
	run := b.newRun(helmtest.NewChart("1.0.0", with(helmtest.TwoConfigMaps(), "scaler.yaml", scaler("v1", ""))),
		map[string]any{"cidr": "1"})
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap,
		"first.yaml":  hook("ConfigMap", "first", "pre-upgrade", "data: {key: hook}\n"),
		"scaler.yaml": scaler("v2", `, annotations: {"helm.sh/hook": pre-upgrade}`)}))
	run.mustSettle(t)
	b.wantConfigMap("first", "hook")
	if b.get("/apis/autoscaling/v2/namespaces/"+b.namespace+"/horizontalpodautoscalers/scaler") == nil {
		t.Error("the upgrade deleted the hook in another version")
	}
}

// TestIntegrationObjectIsNoLongerHook checks that an upgrade deletes an object that was once a hook, and then an object
// of the manifest. Its annotation of the hook stays in the cluster.
func TestIntegrationObjectIsNoLongerHook(t *testing.T) {
	b := newBench(t)
	own := map[string]string{"value.yaml": helmtest.ValueConfigMap}
	run := b.newRun(helmtest.NewChart("1.0.0", with(own, "first.yaml",
		hook("ConfigMap", "first", "pre-install", "data: {key: hook}\n"))), map[string]any{"cidr": "1"})
	run.options.Upgrade.TakeOwnership = true
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0", with(own, "first.yaml", helmtest.ConfigMap("first", "manifest"))))
	run.mustSettle(t)
	b.wantConfigMap("first", "manifest")
	b.newProcess(run) // It does not know the version of the object, so it reads the object.
	run.want("a3", helmtest.NewChart("3.0.0", own))
	run.mustSettle(t)
	b.wantNoConfigMap("first")
}

// TestIntegrationHookKeepsObjectOfOtherRelease checks that a hook does not delete an object of another release that has
// its name.
func TestIntegrationHookKeepsObjectOfOtherRelease(t *testing.T) {
	b := newBench(t)
	b.otherRelease(t, map[string]string{"hook.yaml": helmtest.ConfigMap("hook", "other")})
	run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{
		"hook.yaml": hook("ConfigMap", "hook", "pre-install", "data: {key: hook}\n")}), nil)
	_, err := run.actNow(t, model.ActionInstall)
	helmtest.WantError(t, err, nil, true, b.namespace+"/other", "hook")
	b.wantConfigMap("hook", "other")
}

// TestIntegrationHookRequests checks the requests for a hook that its action deletes before and after it runs.
func TestIntegrationHookRequests(t *testing.T) {
	b := newBench(t)
	templates := map[string]string{"hook.yaml": hook("ConfigMap", "hook", "pre-install,pre-upgrade", "data: {key: hook}\n"),
		"gone.yaml": strings.Replace(hook("ConfigMap", "gone", "pre-install,pre-upgrade", ""), "annotations: {",
			"annotations: {\"helm.sh/hook-delete-policy\": \"before-hook-creation,hook-succeeded\", ", 1)}
	run := b.newRun(helmtest.NewChart("1.0.0", templates), nil)
	for i, want := range []string{"GET gone, POST configmaps, GET hook, POST configmaps, DELETE gone",
		"GET gone, POST configmaps, GET hook, DELETE hook, POST configmaps, DELETE gone"} {
		run.want(fmt.Sprint("a", i), run.chart)
		b.cutter.Take()
		run.mustSettle(t)
		var got []string
		for _, request := range b.cutter.Take() {
			if method, at, _ := strings.Cut(request, " "); strings.Contains(at, "/configmaps") {
				got = append(got, method+" "+path.Base(at))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("requests %v, want %s", got, want)
		}
	}
}

// ownNamespace is the template of the namespace of a release.
const ownNamespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {{ .Release.Namespace }}\n" +
	"  labels: {by: chart}\n"

// TestIntegrationChartHasItsNamespace checks that a chart can be installed that has the namespace of its release as an
// object, also in a second try. The computation of a patch for an empty item of a list panics: this fails only the
// action.
func TestIntegrationChartHasItsNamespace(t *testing.T) {
	namespace := map[string]string{"value.yaml": helmtest.ValueConfigMap, "namespace.yaml": ownNamespace}
	for name, failing := range map[string]map[string]string{
		"first try":                      nil,
		"second try":                     with(namespace, "broken.yaml", brokenService),
		"second try after an empty item": with(namespace, "namespace.yaml", ownNamespace+"  finalizers: [null]\n"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			run := b.newRun(helmtest.NewChart("1.0.0", namespace), map[string]any{"cidr": "1"})
			if failing != nil {
				run.failing(t, "a1", helmtest.NewChart("1.0.0", failing), model.ActionInstall)
				run.want("a2", helmtest.NewChart("2.0.0", namespace))
			}
			run.mustSettle(t)
			live := b.get("/api/v1/namespaces/" + b.namespace)
			if live.GetLabels()["by"] != "chart" || live.GetAnnotations()[inventory.HelmReleaseName] != "demo" {
				t.Errorf("labels %v, annotations %v", live.GetLabels(), live.GetAnnotations())
			}
			b.wantConfigMap("demo-value", "1")
		})
	}
}

// TestIntegrationFailedInstallWithItsNamespace checks that a failed installation can be uninstalled if the chart has
// the namespace of the release. The installation has created the namespace, so it did not survive an earlier one.
func TestIntegrationFailedInstallWithItsNamespace(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap,
		"namespace.yaml": ownNamespace, "hook.yaml": hookService("refused", "pre-install")}), map[string]any{"cidr": "1"})
	run.policy = helmtest.WithUninstall
	run.mustFail(t, run.later(t, 0), model.ActionInstall)
	run.mustAct(t, run.later(t, 0), model.ActionUninstall)
	if b.get("/api/v1/namespaces/"+b.namespace).GetDeletionTimestamp() == nil {
		t.Error("the namespace was not deleted")
	}
}
