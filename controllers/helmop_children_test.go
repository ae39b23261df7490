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
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestChildrenThatNeedNoRepair holds that a child is left alone just if repairing it would change nothing.
func TestChildrenThatNeedNoRepair(t *testing.T) {
	t.Parallel()
	owner := func(change func(*metav1.OwnerReference)) func(*addonsv1.HelmOpRelease) {
		return func(c *addonsv1.HelmOpRelease) { change(&c.OwnerReferences[0]) }
	}
	changes := map[string]func(*addonsv1.HelmOpRelease){
		"as it was made":           func(*addonsv1.HelmOpRelease) {},
		"another label":            func(c *addonsv1.HelmOpRelease) { c.Labels["team"] = "red" },
		"no labels":                func(c *addonsv1.HelmOpRelease) { c.Labels = nil },
		"no label of the HelmOp":   func(c *addonsv1.HelmOpRelease) { delete(c.Labels, addonsv1.HelmOpNameLabel) },
		"a label of another":       func(c *addonsv1.HelmOpRelease) { c.Labels[addonsv1.HelmOpNameLabel] = "other" },
		"no label of the Cluster":  func(c *addonsv1.HelmOpRelease) { delete(c.Labels, clusterv1.ClusterNameLabel) },
		"another watch filter":     func(c *addonsv1.HelmOpRelease) { c.Labels[clusterv1.WatchLabel] = "red" },
		"no watch filter":          func(c *addonsv1.HelmOpRelease) { delete(c.Labels, clusterv1.WatchLabel) },
		"no owner":                 func(c *addonsv1.HelmOpRelease) { c.OwnerReferences = nil },
		"the owner as of a backup": owner(func(o *metav1.OwnerReference) { o.UID = "before" }),
		"an owner of another name": owner(func(o *metav1.OwnerReference) { o.Name = "before" }),
		"another version":          owner(func(o *metav1.OwnerReference) { o.APIVersion = addonsv1.GroupVersion.Group + "/v1" }),
		"an owner that may go":     owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = nil }),
		"it makes way": func(c *addonsv1.HelmOpRelease) {
			c.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: "7"}
		},
		"it makes way and is ending": func(c *addonsv1.HelmOpRelease) {
			c.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: "7"}
			c.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1e9, 0)))
		},
		"another annotation": func(c *addonsv1.HelmOpRelease) { c.Annotations = map[string]string{"note": "x"} },
	}
	untouched := []string{"as it was made", "another label", "it makes way and is ending", "another annotation"}
	for _, names := range [][2]string{{"cni", "one"}, {strings.Repeat("h", 70), strings.Repeat("c", 70)}} {
		for _, name := range slices.Sorted(maps.Keys(changes)) {
			t.Run(name+" of "+names[0], func(t *testing.T) {
				t.Parallel()
				helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{
					Namespace: "fleet", Name: names[0], UID: "now", Labels: map[string]string{clusterv1.WatchLabel: "blue"},
				}}
				r := &helmOpReconciler{client: storeOf(t)}
				child := releaseFor("fleet", "it", addonsv1.ClusterReference{Name: names[1]})
				child.OwnerReferences = nil
				if err := r.own(helmOp, child); err != nil {
					t.Fatal(err)
				}
				changes[name](child)
				metadata, _, err := r.repairedMetadata(helmOp, child)
				if err != nil {
					t.Fatal(err)
				}
				if same, known := equality.Semantic.DeepEqual(child.ObjectMeta, metadata), isKnownAs(helmOp, child); known != same || known != slices.Contains(untouched, name) {
					t.Errorf("it is left alone: %t; a repair changes nothing: %t", known, same)
				}
			})
		}
	}
}

// TestWhatChildrenAreToldIsRemembered holds that it is, for as long as they are told nothing else.
func TestWhatChildrenAreToldIsRemembered(t *testing.T) {
	t.Parallel()
	memory := newPlannedReleases()
	child := releaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
	child.UID, child.Generation, child.Spec.ValuesDigest = "u", 1, "a"
	of := func() string {
		t.Helper()
		release, err := memory.of(child)
		if err != nil {
			t.Fatal(err)
		}
		return release.Content
	}
	first := of()
	child.Spec.ValuesDigest = "b"
	if of() != first {
		t.Error("what a generation told is not remembered")
	}
	child.Generation = 2
	second := of()
	if second == first {
		t.Error("another generation tells the same")
	}
	child.UID, child.Spec.ValuesDigest = "v", "c"
	if of() == second {
		t.Error("another child of the same generation tells the same")
	}
}
