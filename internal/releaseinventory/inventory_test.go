// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releaseinventory

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

var (
	role = inventory.Ref{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "web"}
)

func TestInventoryHasAllObjects(t *testing.T) {
	t.Parallel()
	want := []inventory.Ref{controllertest.ConfigMap, controllertest.Deployment, controllertest.Custom, role}
	inventory.Sort(want)
	known := Of(&addonsv1.HelmOpReleaseSpec{},
		[]inventory.Ref{role, controllertest.ConfigMap, controllertest.Deployment, controllertest.Custom,
			controllertest.ConfigMap}, 3)
	got := Refs(known)
	inventory.Sort(got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	release := &addonsv1.HelmOpRelease{}
	release.Status.Inventory = known
	if !IsOf(release, 3) || IsOf(release, 4) {
		t.Error("the inventory is not known again")
	}
	// In earlier versions, it contained only objects whose health is followed.
	known.Selection = "health"
	if IsOf(release, 3) {
		t.Error("an inventory of some objects is taken for one of all")
	}
}

func TestInventoryPrefersObjectsWithHealth(t *testing.T) {
	t.Parallel()
	refs := []inventory.Ref{controllertest.Custom, controllertest.Deployment}
	for i := range MaxObjects {
		refs = append(refs, inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "apps", Name: fmt.Sprint(i)})
	}
	known := Refs(Of(&addonsv1.HelmOpReleaseSpec{}, refs, 1))
	if len(known) != MaxObjects || !slices.Contains(known, controllertest.Custom) ||
		!slices.Contains(known, controllertest.Deployment) {
		t.Errorf("%d objects, the first are %v", len(known), known[:3])
	}
}

func TestInventoryIsLimited(t *testing.T) {
	t.Parallel()
	var refs []inventory.Ref
	for i := range MaxObjects + 1 {
		refs = append(refs, inventory.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "apps",
			Name: fmt.Sprint(i)})
	}
	known := Of(&addonsv1.HelmOpReleaseSpec{}, refs, 1)
	if !known.Truncated || len(Refs(known)) != MaxObjects {
		t.Errorf("truncated %t, %d objects", known.Truncated, len(Refs(known)))
	}
	for i := range refs {
		refs[i].Kind = fmt.Sprint("Kind", i)
	}
	if known = Of(&addonsv1.HelmOpReleaseSpec{}, refs, 1); !known.Truncated ||
		len(known.Kinds) != maxKinds {
		t.Errorf("truncated %t, %d kinds", known.Truncated, len(known.Kinds))
	}
}

// TestNewRevisionClearsDrift checks that differences from one revision are not reported for the next.
