// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

var (
	role = inventory.Ref{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "web"}
)

func TestInventoryHasAllObjects(t *testing.T) {
	t.Parallel()
	want := []inventory.Ref{controllertest.ConfigMap, controllertest.Deployment, controllertest.Custom, role}
	inventory.Sort(want)
	known := inventoryOf(&addonsv1.HelmOpReleaseSpec{},
		[]inventory.Ref{role, controllertest.ConfigMap, controllertest.Deployment, controllertest.Custom,
			controllertest.ConfigMap}, 3)
	got := refsOf(known)
	inventory.Sort(got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	release := &addonsv1.HelmOpRelease{}
	release.Status.Inventory = known
	if !isInventoryOf(release, 3) || isInventoryOf(release, 4) {
		t.Error("the inventory is not known again")
	}
	// Earlier versions had only those objects in it whose health is followed.
	known.Selection = "health"
	if isInventoryOf(release, 3) {
		t.Error("an inventory of some objects is taken for one of all")
	}
}

func TestInventoryPrefersObjectsWithHealth(t *testing.T) {
	t.Parallel()
	refs := []inventory.Ref{controllertest.Custom, controllertest.Deployment}
	for i := range maxInventory {
		refs = append(refs, inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "apps", Name: fmt.Sprint(i)})
	}
	known := refsOf(inventoryOf(&addonsv1.HelmOpReleaseSpec{}, refs, 1))
	if len(known) != maxInventory || !slices.Contains(known, controllertest.Custom) ||
		!slices.Contains(known, controllertest.Deployment) {
		t.Errorf("%d objects, the first are %v", len(known), known[:3])
	}
}

func TestInventoryIsLimited(t *testing.T) {
	t.Parallel()
	var refs []inventory.Ref
	for i := range maxInventory + 1 {
		refs = append(refs, inventory.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "apps",
			Name: fmt.Sprint(i)})
	}
	known := inventoryOf(&addonsv1.HelmOpReleaseSpec{}, refs, 1)
	if !known.Truncated || len(refsOf(known)) != maxInventory {
		t.Errorf("truncated %t, %d objects", known.Truncated, len(refsOf(known)))
	}
	for i := range refs {
		refs[i].Kind = fmt.Sprint("Kind", i)
	}
	if known = inventoryOf(&addonsv1.HelmOpReleaseSpec{}, refs, 1); !known.Truncated ||
		len(known.Kinds) != maxInventoryKinds {
		t.Errorf("truncated %t, %d kinds", known.Truncated, len(known.Kinds))
	}
}

// TestNewRevisionClearsDrift checks that differences from one revision are not reported for the next.
func TestNewRevisionClearsDrift(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
	checked := metav1.NewTime(b.now)
	b.release.Status.Drift = &addonsv1.DriftStatus{
		Differing: 1, Objects: []addonsv1.DriftedObject{{Kind: "ConfigMap"}}, Fingerprint: "f", LastCheckedAt: checked,
	}
	report.SetCondition(b.release, addonsv1.DriftedCondition, report.True, addonsv1.DriftDetectedReason, "")
	b.deploy(nil)
	if got, want := *b.release.Status.Drift,
		(addonsv1.DriftStatus{LastCheckedAt: checked}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	drifted := conditions.Get(b.release, addonsv1.DriftedCondition)
	if drifted.Status != metav1Unknown || drifted.Reason != addonsv1.DriftCheckPendingReason {
		t.Errorf("Drifted is %v", drifted)
	}
	report.SetCondition(b.release, addonsv1.DriftedCondition, report.False, addonsv1.NoDriftReason, "")
	b.deploy(nil)
	if !conditions.IsFalse(b.release, addonsv1.DriftedCondition) {
		t.Error("that nothing differed stands until something is found")
	}
}
