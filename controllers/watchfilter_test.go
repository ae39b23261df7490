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

func TestIsWatched(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, filter string
		labels       map[string]string
		want         bool
	}{
		{name: "no filter", want: true},
		{name: "no filter, a label", labels: map[string]string{clusterv1.WatchLabel: "red"}, want: true},
		{name: "the filter's label", filter: "blue", labels: map[string]string{clusterv1.WatchLabel: "blue"}, want: true},
		{name: "another label", filter: "blue", labels: map[string]string{clusterv1.WatchLabel: "red"}},
		{name: "no label", filter: "blue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}
			if got := isWatched(helmOp, tc.filter); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRelabelChild(t *testing.T) {
	t.Parallel()
	watched := func(value string) map[string]string {
		if value == "" {
			return nil
		}
		return map[string]string{clusterv1.WatchLabel: value}
	}
	for _, tc := range []struct{ name, child, helmOp string }{
		{name: "unchanged", child: "blue", helmOp: "blue"},
		{name: "added", helmOp: "blue"},
		{name: "changed", child: "blue", helmOp: "red"},
		{name: "removed", child: "blue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := addonsv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: "u", Labels: watched(tc.helmOp)}}
			child := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", Labels: watched(tc.child)}}
			r := &helmOpReconciler{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(child).Build()}
			if err := r.repairChild(t.Context(), helmOp, child); err != nil {
				t.Fatal(err)
			}
			stored := &addonsv1.HelmOpRelease{}
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(child), stored); err != nil {
				t.Fatal(err)
			}
			if got := stored.Labels[clusterv1.WatchLabel]; got != tc.helmOp {
				t.Errorf("the child has the label %q, want %q", got, tc.helmOp)
			}
		})
	}
}
