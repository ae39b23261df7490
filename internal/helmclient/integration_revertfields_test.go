// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
			"apiVersion: %s/v1\nkind: Widget\nmetadata:\n  name: new\nspec: {key: %q}\n", group, key))
	}
	crdFile := map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1")}
	run := b.newRun(helmtest.ChartWithCRDs("1.0.0", objects("1", ""), crdFile), nil)
	run.mustSettle(t)
	broken := with(withNew(objects("2", "  more: left\n"), "2"), "hook.yaml", hookService("refused", "post-upgrade"))
	run.failing(t, "a2", helmtest.ChartWithCRDs("2.0.0", broken, crdFile), model.ActionUpgrade)
	wantKey := func(name, want string) {
		t.Helper()
		widget := b.get("/apis/" + group + "/v1/namespaces/" + b.namespace + "/widgets/" + name)
		if widget == nil {
			t.Fatalf("there is no widget %s", name)
		}
		if got, _, err := unstructured.NestedString(widget.Object, "spec", "key"); err != nil || got != want {
			t.Errorf("widget %s has %q, %v, want %q", name, got, err, want)
		}
	}
	wantKey("old", "2")
	wantKey("new", "2")

	run.want("a3", helmtest.ChartWithCRDs("3.0.0", withNew(objects("1", ""), "3"), crdFile))
	plan, err := b.client.Plan(t.Context(), b.target, run.desired, run.policy, run.options, run.chart, run.values)
	if err != nil || len(plan.Changes) != 3 || plan.Unchanged != len(crdFile) {
		t.Errorf("plan %+v, %v", plan, err)
	}
	run.mustSettle(t)
	wantKey("old", "1")
	wantKey("new", "3")
	object, err := b.kube.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "map", metav1.GetOptions{})
	if err != nil || len(object.Data) != 1 || object.Data["key"] != "1" {
		t.Errorf("data %v, %v", object.Data, err)
	}
}
