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
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// An uninstallation destroys what works. It must follow from what the API server says when it begins.
func TestFateOf(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one", Labels: map[string]string{"cni": "calico"}}}
	helmOp := func(change func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
		h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "calico", UID: "u", Finalizers: []string{addonsv1.HelmOpFinalizer}}}
		h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cni": "calico"}}
		h.Spec.Release = addonsv1.ReleaseTemplate{Name: "calico-{{ .Cluster.metadata.name }}", Namespace: "tigera"}
		if change != nil {
			change(h)
		}
		return h
	}
	now := metav1.Now()
	tests := map[string]struct {
		helmOp  *addonsv1.HelmOp
		cluster *clusterv1.Cluster
		want    releaseFate
		wantErr bool
	}{
		"deleted by hand":             {helmOp(nil), cluster, fateWanted, false},
		"the HelmOp has another UID":  {helmOp(func(h *addonsv1.HelmOp) { h.UID = "other" }), cluster, fateWanted, false},
		"the HelmOp is gone":          {nil, cluster, fateUnknown, false},
		"the HelmOp is being deleted": {helmOp(func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &now }), cluster, fateEnds, false},
		"the Cluster is not selected": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["cni"] = "x" }), cluster, fateEnds, false},
		"it is not, by one with another UID": {helmOp(func(h *addonsv1.HelmOp) {
			h.UID, h.Spec.ClusterSelector.MatchLabels["cni"] = "other", "x"
		}), cluster, fateUnknown, false},
		"another name is wanted":        {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "calico" }), cluster, fateReplaced, false},
		"another namespace is wanted":   {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Namespace = "x" }), cluster, fateReplaced, false},
		"the selector cannot be read":   {helmOp(func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["cni"] = "-" }), cluster, fateEnds, true},
		"what is wanted cannot be told": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "{{ .Cluster.none }}" }), cluster, fateEnds, true},
		"the Cluster cannot be read":    {helmOp(nil), nil, fateEnds, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builder := fake.NewClientBuilder().WithScheme(scheme)
			for _, obj := range []client.Object{tc.helmOp, tc.cluster} {
				switch o := obj.(type) {
				case *addonsv1.HelmOp:
					if o != nil {
						builder.WithObjects(o)
					}
				case *clusterv1.Cluster:
					if o != nil {
						builder.WithObjects(o.DeepCopy())
					}
				}
			}
			c := builder.Build()
			r := &releaseReconciler{live: c, renderer: newRenderer(newReferenceReader(c, c), newObjectReader(c))}
			release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "child"}}
			release.Spec.ClusterRef.Name = "one"
			release.Spec.Release = addonsv1.ReleaseIdentity{Name: "calico-one", Namespace: "tigera"}
			release.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(helmOp(nil), addonsv1.GroupVersion.WithKind(helmOpKind))}
			got, err := r.fateOf(t.Context(), release)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("fateOf = %v, %v; want %v, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}
