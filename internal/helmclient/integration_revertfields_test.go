// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationFailedUpgradeLeavesNoFields checks that the upgrade after a failed upgrade removes the fields that
// only the failed revision has, and restores the values that it changed, also in custom resources. The preview shows
// this.
func TestIntegrationFailedUpgradeLeavesNoFields(t *testing.T) {
	b := newBench(t)
	group := b.namespace + ".fields.test"
	objects := func(key, data string) map[string]string {
		return map[string]string{"map.yaml": helmtest.ConfigMap("map", "1") + data, "widget.yaml": fmt.Sprintf(
			"apiVersion: %s/v1\nkind: Widget\nmetadata:\n  name: old\nspec: {key: %q}\n", group, key)}
	}
	withNew := func(objects map[string]string, key string) map[string]string {
		return with(objects, "new.yaml", fmt.Sprintf(
			"apiVersion: %s/v1\nkind: Widget\nmetadata:\n  name: new\nspec: {key: %q, size: 1}\n", group, key))
	}
	crdFile := map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1")}
	run := b.newRun(helmtest.ChartWithCRDs("1.0.0", objects("1", ""), crdFile), nil)
	run.mustSettle(t)
	broken := with(withNew(objects("2", "  more: left\n"), "2"), "hook.yaml", hookService("refused", "post-upgrade"))
	run.failing(t, "a2", helmtest.ChartWithCRDs("2.0.0", broken, crdFile), model.ActionUpgrade)
	widgets := "/apis/" + group + "/v1/namespaces/" + b.namespace + "/widgets/"
	wantKey := func(name, want string) {
		t.Helper()
		widget := b.get(widgets + name)
		if widget == nil {
			t.Fatalf("there is no widget %s", name)
		}
		if got, _, err := unstructured.NestedString(widget.Object, "spec", "key"); err != nil || got != want {
			t.Errorf("widget %s has %q, %v, want %q", name, got, err, want)
		}
	}
	wantKey("old", "2")
	wantKey("new", "2")
	// An autoscaler changes an object that the failed revision has created, later than in the second of its creation.
	patchNew := func(context.Context) (bool, error) {
		body := fmt.Appendf(nil, `{"metadata":{"annotations":{"at":%q}},"spec":{"size":20}}`, time.Now())
		err := b.kube.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(widgets + "new").Body(body).
			Do(t.Context()).Error()
		widget := b.get(widgets + "new")
		return slices.ContainsFunc(widget.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager != model.FieldManager && entry.Time.After(widget.GetCreationTimestamp().Time)
		}), err
	}
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, patchNew)
	if err != nil {
		t.Fatal(err)
	}

	run.want("a3", helmtest.ChartWithCRDs("3.0.0", withNew(objects("1", ""), "3"), crdFile))
	plan, err := b.client.Plan(t.Context(), b.target, run.desired, run.policy, model.Past{}, run.options, run.chart,
		run.values)
	if err != nil || len(plan.Changes) != 3 || plan.Unchanged != len(crdFile) {
		t.Errorf("plan %+v, %v", plan, err)
	}
	run.mustSettle(t)
	wantKey("old", "1")
	wantKey("new", "3")
	if size, _, err := unstructured.NestedInt64(b.get(widgets+"new").Object, "spec", "size"); err != nil || size != 20 {
		t.Errorf("widget new has the size %d, %v", size, err)
	}
	object, err := b.kube.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "map", metav1.GetOptions{})
	if err != nil || len(object.Data) != 1 || object.Data["key"] != "1" {
		t.Errorf("data %v, %v", object.Data, err)
	}
}

// TestIntegrationBrokenRevisionIsReverted checks that the upgrade after a failed upgrade succeeds if no patch from the
// failed revision can be computed, or the API server refuses the patch. The computation for an empty item of a list
// panics.
func TestIntegrationBrokenRevisionIsReverted(t *testing.T) {
	b := newBench(t)
	app := func(env string) map[string]string {
		return map[string]string{"app.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app}\nspec:\n" +
			"  replicas: 0\n  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}\n" +
			"    spec:\n      containers:\n      - {name: app, image: app, env: [" + env + "]}\n",
			"map.yaml": helmtest.ConfigMap("map", "1")}
	}
	good := helmtest.NewChart("1.0.0", app("{name: A}"))
	run := b.newRun(good, nil)
	run.mustSettle(t)
	for name, broken := range map[string]map[string]string{
		"empty":    app("null, {name: A}"),
		"nameless": app("{label: A}"),
		"immutable": with(with(app("{name: A}"), "map.yaml", helmtest.ConfigMap("map", "1")+"immutable: true\n"),
			"hook.yaml", hookService("refused", "post-upgrade")),
	} {
		t.Log(name)
		run.failing(t, name, helmtest.NewChart("2.0.0", broken), model.ActionUpgrade)
		run.want("after-"+name, good)
		plan, err := b.client.Plan(t.Context(), b.target, run.desired, run.policy, model.Past{}, run.options, run.chart,
			run.values)
		if err != nil || plan.Unchanged != len(good.Templates) {
			t.Errorf("%s: plan %+v, %v", name, plan, err)
		}
		run.mustSettle(t)
	}
}
