// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

var sharedServer apiserver.Shared

func TestMain(m *testing.M) { os.Exit(sharedServer.Run(m)) }

// TestApplyTakesOverFieldsOfManager checks that a run of the command can return from a version that the manager has
// installed, whatever this version added to lists. Another run changes nothing.
func TestApplyTakesOverFieldsOfManager(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster, err := client.New(sharedServer.Server(t).RESTConfig(), client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	var told []Outcome
	applier := &Applier{Client: cluster, Report: func(_ client.Object, outcome Outcome) { told = append(told, outcome) }}
	components := Own(mustBuild(t, Options{Version: "v1"}))
	first := []*unstructured.Unstructured{find(t, components, "Namespace", Namespace),
		find(t, components, "Deployment", Deployment)}
	apply := func(want Outcome) *unstructured.Unstructured {
		t.Helper()
		told = nil
		if err := applier.Apply(ctx, first); err != nil {
			t.Fatal(err)
		}
		if got := told[len(told)-1]; got != want {
			t.Errorf("the Deployment is %s, want %s", got, want)
		}
		now := first[1].DeepCopy()
		if err := cluster.Get(ctx, client.ObjectKeyFromObject(now), now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	before := apply(Created)
	// Another run of the test uses the same API server.
	t.Cleanup(func() {
		if err := cluster.Delete(context.WithoutCancel(ctx), before); err != nil {
			t.Error(err)
		}
	})
	spec := specOf(before)
	apply(Unchanged)

	patchAs(ctx, t, cluster, before, "helmop", `{"spec": {"template": {
		"metadata": {"annotations": {"example.com/newer": "yes"}},
		"spec": {
			"initContainers": [{"name": "newer", "image": "registry.example/newer:1"}],
			"volumes": [{"name": "newer", "emptyDir": {}}],
			"containers": [{"name": "manager", "env": [{"name": "NEWER", "value": "yes"}], "volumeMounts": [{"name": "newer", "mountPath": "/newer"}]}]}}}}`)
	// Fields that others have set are kept.
	patchAs(ctx, t, cluster, before, "kubectl-edit",
		`{"spec": {"template": {"metadata": {"annotations": {"example.com/others": "yes"}}}}}`)
	if err := unstructured.SetNestedField(spec, "yes", "template", "metadata", "annotations",
		"example.com/others"); err != nil {
		t.Fatal(err)
	}
	after := apply(Configured)
	if diff := cmp.Diff(spec, specOf(after)); diff != "" {
		t.Errorf("it is not what it was:\n%s", diff)
	}
	apply(Unchanged)
}

// patchAs changes an object as Helm and kubectl do, as a field manager.
func patchAs(ctx context.Context, t *testing.T, cluster client.Client, object *unstructured.Unstructured,
	manager, change string,
) {
	t.Helper()
	err := cluster.Patch(ctx, object.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(change)),
		client.FieldOwner(manager))
	if err != nil {
		t.Fatal(err)
	}
}

func specOf(object *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	return spec
}
