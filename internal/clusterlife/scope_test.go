// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// holdingPairs returns a Cluster with HelmOps that hold its upgrades for 1 m, 2 m and so on, and a release of each.
func holdingPairs(n int) (*clusterv1.Cluster, []addonsv1.HelmOpRelease, []addonsv1.HelmOp) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one"}}
	helmOps, releases := make([]addonsv1.HelmOp, n), make([]addonsv1.HelmOpRelease, n)
	for i := range n {
		name, isController := fmt.Sprintf("h-%d", i), true
		helmOps[i].ObjectMeta = metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}
		releases[i].ObjectMeta = metav1.ObjectMeta{Namespace: "n", Name: name, OwnerReferences: []metav1.OwnerReference{{
			Kind: apiutil.HelmOpKind, Name: name, UID: types.UID(name), Controller: &isController,
		}}}
		releases[i].Spec.ClusterRef = addonsv1.ClusterReference{Name: cluster.Name}
		releases[i].Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{
			Timeout: metav1.Duration{Duration: time.Duration(i+1) * time.Minute},
		}
	}
	return cluster, releases, helmOps
}

// TestUpgradeHoldersOfManyReleases checks that each HelmOp has its own release, and that the cost does not grow with
// the square of their number: each event of a release needs the holders of its Cluster.
func TestUpgradeHoldersOfManyReleases(t *testing.T) {
	const n = 200
	cluster, releases, helmOps := holdingPairs(n)
	holders := UpgradeHolders(cluster, releases, helmOps)
	if len(holders) != n {
		t.Errorf("%d holders, want %d", len(holders), n)
	}
	for i := range helmOps {
		holder := holders[UpgradeHoldName(client.ObjectKeyFromObject(&helmOps[i]))]
		if holder.HelmOp != &helmOps[i] || holder.Release != &releases[i] ||
			holder.Before != releases[i].Spec.BeforeClusterUpgrade {
			t.Errorf("the holder of HelmOp %d is %+v", i, holder)
		}
	}
	// An owner reference is copied for each comparison of a release with a HelmOp.
	perRelease := testing.AllocsPerRun(1, func() { UpgradeHolders(cluster, releases, helmOps) }) / n
	if perRelease > n/4 {
		t.Errorf("%.0f allocations for each of %d releases", perRelease, n)
	}
}

// TestUpgradeHolderOfReplacedRelease checks that a release that is under deletion, or has another owner, is no holder.
func TestUpgradeHolderOfReplacedRelease(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*addonsv1.HelmOpRelease){
		"under deletion":               func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = new(metav1.Now()) },
		"of a HelmOp that was deleted": func(r *addonsv1.HelmOpRelease) { r.OwnerReferences[0].UID = "former" },
		"of another name":              func(r *addonsv1.HelmOpRelease) { r.OwnerReferences[0].Name = "other" },
		"without an owner":             func(r *addonsv1.HelmOpRelease) { r.OwnerReferences = nil },
	} {
		cluster, releases, helmOps := holdingPairs(2)
		change(&releases[0])
		holders := UpgradeHolders(cluster, releases, helmOps)
		if len(holders) != 1 || holders[UpgradeHoldName(client.ObjectKeyFromObject(&helmOps[1]))].Release != &releases[1] {
			t.Errorf("%s: %+v", name, holders)
		}
	}
}
