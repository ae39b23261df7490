// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

func TestHoldPatch(t *testing.T) {
	t.Parallel()
	const (
		uid       = `{"op":"test","path":"/metadata/uid","value":"u"}`
		annotated = `{"op":"test","path":"/metadata/annotations/cluster.x-k8s.io~1paused","value":null}`
		mark      = `"path":"/metadata/annotations/addons.cluster.x-k8s.io~1deletion-hold","value":`
		since     = `"` + controllertest.HeldSince + `"`
	)
	cluster := func(annotations map[string]any, spec map[string]any) map[string]any {
		metadata := map[string]any{"uid": "u"}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
		return map[string]any{"metadata": metadata, "spec": spec}
	}
	held := map[string]any{addonsv1.DeletionHoldAnnotation: controllertest.HeldSince}
	tests := map[string]struct {
		before, after map[string]any
		want          []string
	}{
		"begin": {
			before: cluster(map[string]any{"a": "b"}, map[string]any{}),
			after: cluster(map[string]any{"a": "b", addonsv1.DeletionHoldAnnotation: controllertest.HeldSince},
				map[string]any{"paused": true}),
			want: []string{uid, annotated, `{"op":"test",` + mark + `null}`, `{"op":"test","path":"/spec/paused","value":null}`,
				`{"op":"add",` + mark + since + `}`, `{"op":"add","path":"/spec/paused","value":true}`},
		},
		"begin without annotations": {
			before: cluster(nil, map[string]any{"paused": false}),
			after:  cluster(held, map[string]any{"paused": true}),
			want: []string{uid, `{"op":"test","path":"/metadata/annotations","value":null}`,
				`{"op":"test","path":"/spec/paused","value":false}`,
				`{"op":"add","path":"/metadata/annotations","value":{"addons.cluster.x-k8s.io/deletion-hold":` + since + `}}`,
				`{"op":"add","path":"/spec/paused","value":true}`},
		},
		"end": {
			before: cluster(held, map[string]any{"paused": true}),
			after:  cluster(map[string]any{addonsv1.DeletionHoldAnnotation: apiutil.DeletionHoldOver}, map[string]any{}),
			want: []string{uid, annotated, `{"op":"test",` + mark + since + `}`,
				`{"op":"test","path":"/spec/paused","value":true}`,
				`{"op":"add",` + mark + `"over"}`, `{"op":"remove","path":"/spec/paused","value":null}`},
		},
	}
	for name, tc := range tests {
		patch, err := holdPatch(&unstructured.Unstructured{Object: tc.before}, &unstructured.Unstructured{Object: tc.after})
		if err != nil {
			t.Fatal(err)
		}
		data, err := patch.Data(nil)
		if want := "[" + strings.Join(tc.want, ",") + "]"; err != nil || string(data) != want {
			t.Errorf("%s: %v, %s\nwant %s", name, err, data, want)
		}
	}
}

// TestBeginHoldWithConcurrentWrites checks writes of other programs that the cache does not have yet. No write is lost,
// the pause of another program is not treated as a hold, and a write of other fields does not delay the hold.
func TestBeginHoldWithConcurrentWrites(t *testing.T) {
	t.Parallel()
	annotate := func(name, value string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, name, value) }
	}
	pause := func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }
	tests := map[string]struct {
		// bare is true if the Cluster had no annotations before, and an empty spec.
		bare    bool
		write   func(*clusterv1.Cluster)
		held    bool
		patches int
	}{
		"status by Cluster API": {write: func(c *clusterv1.Cluster) {
			c.Status.Phase = string(clusterv1.ClusterPhaseDeleting)
		}, held: true, patches: 1},
		"another annotation":         {write: annotate("a", "b"), held: true, patches: 1},
		"the first annotation":       {bare: true, write: annotate("a", "b"), held: true, patches: 2},
		"pause":                      {write: pause, patches: 1},
		"pause, first field of spec": {bare: true, write: pause, patches: 1},
		"pause by annotation":        {write: annotate(clusterv1.PausedAnnotation, ""), patches: 1},
		"hold is over": {write: annotate(addonsv1.DeletionHoldAnnotation, apiutil.DeletionHoldOver),
			patches: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := controllertest.DeletingCluster("", false)
			if !tc.bare {
				cluster.Annotations["before"] = "x"
				cluster.Spec.ClusterNetwork.ServiceDomain = "cluster.local"
			}
			r := lifeReconciler(t, cluster, controllertest.HoldingRelease(time.Hour))
			key := client.ObjectKey{Namespace: "ns", Name: "c"}
			scope, err := r.gather(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			written := &clusterv1.Cluster{}
			if err := r.client.Get(t.Context(), key, written); err != nil {
				t.Fatal(err)
			}
			tc.write(written)
			if err := r.client.Update(t.Context(), written); err != nil {
				t.Fatal(err)
			}
			patches := 0
			r.client = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
					options ...client.PatchOption) error {
					patches++
					return c.Patch(ctx, object, patch, options...)
				},
			})
			if err := r.beginHold(t.Context(), scope, 1); err != nil {
				t.Fatal(err)
			}
			after := &clusterv1.Cluster{}
			if err := r.client.Get(t.Context(), key, after); err != nil {
				t.Fatal(err)
			}
			if held := apiutil.HoldOf(after).IsOn(); held != tc.held || patches != tc.patches {
				t.Errorf("held: %t, after %d patches; want %t after %d", held, patches, tc.held, tc.patches)
			}
			if after.Status.Phase != written.Status.Phase || after.Annotations["a"] != written.Annotations["a"] {
				t.Errorf("a concurrent write is lost: %+v", after)
			}
			if tc.held {
				expectEvent(t, r, "Normal "+addonsv1.ClusterDeletionHeldEvent)
			}
			expectEvent(t, r, "")
		})
	}
}

// TestEndHoldKeepsPauseOfUser checks a Cluster that a user paused after another manager ended the hold. The cache does
// not have these two changes yet.
func TestEndHoldKeepsPauseOfUser(t *testing.T) {
	t.Parallel()
	r := lifeReconciler(t, controllertest.DeletingCluster(controllertest.HeldSince, true))
	key := client.ObjectKey{Namespace: "ns", Name: "c"}
	scope, err := r.gather(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	now := scope.cluster.DeepCopy()
	now.Annotations[addonsv1.DeletionHoldAnnotation] = apiutil.DeletionHoldOver
	if err := r.client.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := r.endHold(t.Context(), scope, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Get(t.Context(), key, now); err != nil || !ptr.Deref(now.Spec.Paused, false) {
		t.Errorf("the pause of the user has ended: %v", err)
	}
	expectEvent(t, r, "")
}

func TestIsConflict(t *testing.T) {
	t.Parallel()
	clusters := schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "clusters"}
	kind := clusterv1.GroupVersion.WithKind("Cluster").GroupKind()
	tests := map[string]struct {
		err  error
		want bool
	}{
		"none":     {},
		"conflict": {err: apierrors.NewConflict(clusters, "c", nil), want: true},
		"failed test of a JSON patch": {err: apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "",
			clusters, "", "testing value failed", 0, false), want: true},
		"failed validation": {err: apierrors.NewInvalid(kind, "c",
			field.ErrorList{field.Required(field.NewPath("spec"), "")})},
		"not found": {err: apierrors.NewNotFound(clusters, "c")},
	}
	for name, tc := range tests {
		if got := isConflict(tc.err); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
