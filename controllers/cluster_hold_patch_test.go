/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

func TestHoldPatch(t *testing.T) {
	t.Parallel()
	const (
		uid       = `{"op":"test","path":"/metadata/uid","value":"u"}`
		annotated = `{"op":"test","path":"/metadata/annotations/cluster.x-k8s.io~1paused","value":null}`
		mark      = `"path":"/metadata/annotations/addons.cluster.x-k8s.io~1deletion-hold","value":`
		since     = `"` + heldSince + `"`
	)
	cluster := func(annotations map[string]any, spec map[string]any) map[string]any {
		metadata := map[string]any{"uid": "u"}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
		return map[string]any{"metadata": metadata, "spec": spec}
	}
	held := map[string]any{addonsv1.DeletionHoldAnnotation: heldSince}
	tests := map[string]struct {
		before, after map[string]any
		want          []string
	}{
		"it begins": {
			before: cluster(map[string]any{"a": "b"}, map[string]any{}),
			after:  cluster(map[string]any{"a": "b", addonsv1.DeletionHoldAnnotation: heldSince}, map[string]any{"paused": true}),
			want: []string{uid, annotated, `{"op":"test",` + mark + `null}`, `{"op":"test","path":"/spec/paused","value":null}`,
				`{"op":"add",` + mark + since + `}`, `{"op":"add","path":"/spec/paused","value":true}`},
		},
		"it begins where nobody annotated anything": {
			before: cluster(nil, map[string]any{"paused": false}),
			after:  cluster(held, map[string]any{"paused": true}),
			want: []string{uid, `{"op":"test","path":"/metadata/annotations","value":null}`, `{"op":"test","path":"/spec/paused","value":false}`,
				`{"op":"add","path":"/metadata/annotations","value":{"addons.cluster.x-k8s.io/deletion-hold":` + since + `}}`,
				`{"op":"add","path":"/spec/paused","value":true}`},
		},
		"it ends": {
			before: cluster(held, map[string]any{"paused": true}),
			after:  cluster(map[string]any{addonsv1.DeletionHoldAnnotation: deletionHoldOver}, map[string]any{}),
			want: []string{uid, annotated, `{"op":"test",` + mark + since + `}`, `{"op":"test","path":"/spec/paused","value":true}`,
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
			t.Errorf("%s: %v, %s\nwanted %s", name, err, data, want)
		}
	}
}

// TestHoldBesideOtherWrites: of what somebody wrote a moment ago, and the cache has not seen, nothing is lost, no pause is taken over, and what
// does not concern the hold costs no time.
func TestHoldBesideOtherWrites(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		write   func(*clusterv1.Cluster)
		held    bool
		patches int
	}{
		"Cluster API, of the deletion": {write: func(c *clusterv1.Cluster) { c.Status.Phase = string(clusterv1.ClusterPhaseDeleting) }, held: true, patches: 1},
		"another annotation":           {write: func(c *clusterv1.Cluster) { c.Annotations = map[string]string{"a": "b"} }, held: true, patches: 2},
		"a pause":                      {write: func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }, patches: 1},
		"a pause by annotation":        {write: func(c *clusterv1.Cluster) { c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, patches: 1},
		"the hold, begun and over": {write: func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{addonsv1.DeletionHoldAnnotation: deletionHoldOver}
		}, patches: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lifeReconciler(t, goingCluster("", false), leavingRelease(time.Hour))
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
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
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
			if held := holdOf(after).isOn(); held != tc.held || patches != tc.patches {
				t.Errorf("held: %t, after %d patches; wanted %t after %d", held, patches, tc.held, tc.patches)
			}
			if after.Status.Phase != written.Status.Phase || after.Annotations["a"] != written.Annotations["a"] {
				t.Errorf("a write is lost: %+v", after)
			}
			if tc.held {
				expectEvent(t, r, "Normal "+addonsv1.ClusterDeletionHeldEvent)
			}
			expectEvent(t, r, "")
		})
	}
}
