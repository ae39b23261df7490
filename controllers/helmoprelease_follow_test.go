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
	"fmt"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

func nthUID(i int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)) }

var (
	deployment = inventory.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "apps", Name: "web"}
	configMap  = inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "apps", Name: "config"}
	role       = inventory.Ref{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "web"}
	custom     = inventory.Ref{Group: "example.com", Version: "v1", Kind: "Widget", Namespace: "apps", Name: "w"}
)

func TestInventoryHoldsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	refs := []inventory.Ref{role, configMap, deployment, custom, configMap}
	watchConfigMaps := &addonsv1.HealthOptions{Checks: []addonsv1.HealthCheck{{APIVersion: "v1", Kind: "ConfigMap", Current: "true"}}}
	for name, tc := range map[string]struct {
		options addonsv1.ReleaseOptions
		want    []inventory.Ref
	}{
		"health":       {addonsv1.ReleaseOptions{}, []inventory.Ref{deployment, custom}},
		"health check": {addonsv1.ReleaseOptions{Health: watchConfigMaps}, []inventory.Ref{configMap, deployment, custom}},
		"drift": {
			addonsv1.ReleaseOptions{DriftDetection: &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}},
			[]inventory.Ref{configMap, deployment, custom, role},
		},
	} {
		spec := &addonsv1.HelmOpReleaseSpec{ReleaseOptions: tc.options}
		known := inventoryOf(spec, refs, 3)
		got := refsOf(known)
		inventory.Sort(got)
		inventory.Sort(tc.want)
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		release := &addonsv1.HelmOpRelease{Spec: *spec}
		release.Status.Inventory = known
		if !isInventoryOf(release, 3) || isInventoryOf(release, 4) {
			t.Errorf("%s: the inventory is not known again", name)
		}
		release.Spec.Health = &addonsv1.HealthOptions{Checks: []addonsv1.HealthCheck{{APIVersion: "v1", Kind: "Secret", Current: "true"}}}
		if name != "drift" && isInventoryOf(release, 3) {
			t.Errorf("%s: an inventory of another selection is taken for this one's", name)
		}
	}
}

func TestInventoryIsBounded(t *testing.T) {
	t.Parallel()
	var refs []inventory.Ref
	for i := range maxInventory + 1 {
		refs = append(refs, inventory.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "apps", Name: fmt.Sprint(i)})
	}
	known := inventoryOf(&addonsv1.HelmOpReleaseSpec{}, refs, 1)
	if !known.Truncated || len(refsOf(known)) != maxInventory {
		t.Errorf("truncated %t, %d objects", known.Truncated, len(refsOf(known)))
	}
	for i := range refs {
		refs[i].Kind = fmt.Sprint("Kind", i)
	}
	spec := &addonsv1.HelmOpReleaseSpec{}
	spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
	if known = inventoryOf(spec, refs, 1); !known.Truncated || len(known.Kinds) != maxInventoryKinds {
		t.Errorf("truncated %t, %d kinds", known.Truncated, len(known.Kinds))
	}
}

// TestDriftEndsWithItsRevision: what differed from one revision says nothing of the next.
func TestDriftEndsWithItsRevision(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
	checked := metav1.NewTime(b.now)
	b.release.Status.Drift = &addonsv1.DriftStatus{
		Differing: 1, Objects: []addonsv1.DriftedObject{{Kind: "ConfigMap"}}, Fingerprint: "f", LastCheckedAt: checked,
	}
	setCondition(b.release, addonsv1.DriftedCondition, metav1True, addonsv1.DriftDetectedReason, "")
	b.deploy(nil)
	if got, want := *b.release.Status.Drift, (addonsv1.DriftStatus{LastCheckedAt: checked}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	drifted := conditions.Get(b.release, addonsv1.DriftedCondition)
	if drifted.Status != metav1Unknown || drifted.Reason != addonsv1.DriftCheckPendingReason {
		t.Errorf("Drifted is %v", drifted)
	}
	setCondition(b.release, addonsv1.DriftedCondition, metav1False, addonsv1.NoDriftReason, "")
	b.deploy(nil)
	if !conditions.IsFalse(b.release, addonsv1.DriftedCondition) {
		t.Error("that nothing differed stands until something is found")
	}
}
