// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationRollbackKeepsFieldsOfOthers checks the rollback of a failed upgrade that was about to delete objects.
// The rollback restores the fields of the manifest in these objects, and keeps the fields of other clients.
func TestIntegrationRollbackKeepsFieldsOfOthers(t *testing.T) {
	b := newBench(t)
	group := b.namespace + ".rollback.test"
	own, crdFile := map[string]string{"value.yaml": helmtest.ValueConfigMap},
		map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1")}
	all := with(with(with(own, "map.yaml", helmtest.ConfigMap("object", "1")), "widget.yaml", fmt.Sprintf(
		"apiVersion: %s/v1\nkind: Widget\nmetadata: {name: object}\nspec: {key: \"1\"}\n", group)), "budget.yaml",
		"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: object, labels: {key: \"1\"}}\n"+
			"spec: {maxUnavailable: 1, selector: {matchLabels: {app: a}}}\n")
	run := b.newRun(helmtest.ChartWithCRDs("1.0.0", all, crdFile), map[string]any{"cidr": "1"})
	run.policy = helmtest.WithRollback
	run.mustSettle(t)
	run.failing(t, "a2", helmtest.ChartWithCRDs("2.0.0", with(own, "hook.yaml", hookService("refused", "pre-upgrade")),
		crdFile), model.ActionUpgrade)

	objects := map[string]struct {
		change string
		fields []string
	}{
		"/api/v1/namespaces/" + b.namespace + "/configmaps/object": {`{"data":{"key":"2","more":"kept"}}`,
			[]string{"data"}},
		"/apis/" + group + "/v1/namespaces/" + b.namespace + "/widgets/object": {`{"spec":{"key":"2","more":"kept"}}`,
			[]string{"spec"}},
		"/apis/policy/v1/namespaces/" + b.namespace + "/poddisruptionbudgets/object": {
			`{"metadata":{"labels":{"key":"2","more":"kept"}}}`, []string{"metadata", "labels"}},
	}
	for at, object := range objects {
		if err := b.kube.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(at).Body([]byte(object.change)).
			Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	run.mustAct(t, run.later(t, 0), model.ActionRollback)
	for at, object := range objects {
		fields, _, err := unstructured.NestedStringMap(b.get(at).Object, object.fields...)
		if err != nil || fields["key"] != "1" || fields["more"] != "kept" {
			t.Errorf("%s has %v, %v", at, fields, err)
		}
	}
}

// TestIntegrationRollbackRefusesObjectsOfOthers checks that a rollback, and its repetition, do not take over an object
// of another release that the newest revision does not have. The next upgrade does not take it over either, although
// the revision of the failed rollback has the object. With takeOwnership, the rollback takes it over.
func TestIntegrationRollbackRefusesObjectsOfOthers(t *testing.T) {
	b := newBench(t)
	own := map[string]string{"own.yaml": helmtest.ConfigMap("own", "1")}
	run := b.newRun(helmtest.NewChart("1.0.0", with(own, "shared.yaml", helmtest.ConfigMap("shared-0", "1"))), nil)
	run.policy = helmtest.WithRollback
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0", own))
	run.mustSettle(t)
	b.otherRelease(t, sharedObjects(1, "2"))

	run.past.Unhealthy = true
	for _, wait := range []time.Duration{0, time.Minute} {
		decision := run.later(t, wait)
		_, err := run.act(t.Context(), decision)
		if decision.Action != model.ActionRollback {
			t.Fatalf("decided %+v", decision)
		}
		helmtest.WantError(t, err, helmerr.ErrConflict, true, b.namespace+"/other", "set install.takeOwnership")
		b.wantConfigMap("shared-0", "2")
	}

	run.past = model.Past{}
	run.want("a3", helmtest.NewChart("3.0.0", with(own, "shared.yaml", helmtest.ConfigMap("shared-0", "3"))))
	plan, err := b.client.Plan(t.Context(), b.target, run.desired, run.policy, model.Past{}, run.options, run.chart,
		run.values)
	if err != nil || len(plan.Changes) != 1 || plan.Changes[0].Reason != model.ReasonOwnedByOther {
		t.Errorf("plan %+v, %v", plan, err)
	}
	_, err = run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, helmerr.ErrConflict, true, b.namespace+"/other", "set install.takeOwnership")
	b.wantConfigMap("shared-0", "2")

	run.options.Upgrade.TakeOwnership = true
	run.mustAct(t, run.later(t, 0), model.ActionRollback)
	b.wantConfigMap("shared-0", "1")
}
