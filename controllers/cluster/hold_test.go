// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
)

// upgradingCluster returns an initialized Cluster with a requested upgrade to v1.36.0, and annotations.
func upgradingCluster(annotations map[string]string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Annotations: annotations}}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.0"}
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	return cluster
}

func TestUpgradeHoldStaysWhileReleaseIsReplaced(t *testing.T) {
	t.Parallel()
	name := clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "h"})
	held := "v1.36.0 since " + controllertest.HeldSince
	release := controllertest.HoldingRelease(0)
	release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
	release.DeletionTimestamp = &metav1.Time{Time: controllertest.LifeNow}
	tests := map[string]struct {
		before string
		change func(*addonsv1.HelmOp)
		want   string
	}{
		"requested":                        {before: held, change: func(*addonsv1.HelmOp) {}, want: held},
		"no hold begins without a release": {change: func(*addonsv1.HelmOp) {}},
		"beforeClusterUpgrade removed": {before: held, change: func(h *addonsv1.HelmOp) {
			h.Spec.BeforeClusterUpgrade = nil
		}},
		"Cluster no longer selected": {before: held, change: func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}},
	}
	for what, tc := range tests {
		annotations := map[string]string{}
		if tc.before != "" {
			annotations[name] = tc.before
		}
		r := lifeReconciler(t, upgradingCluster(annotations), release.DeepCopy())
		helmOp := &addonsv1.HelmOp{}
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(controllertest.HoldingHelmOp()), helmOp); err != nil {
			t.Fatal(err)
		}
		helmOp.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		tc.change(helmOp)
		if err := r.client.Update(t.Context(), helmOp); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.pass(t); got.Annotations[name] != tc.want {
			t.Errorf("%s: annotations %v", what, got.Annotations)
		}
	}
}

// TestNoUpgradeHoldBeginsDuringMove makes passes over Clusters with an upgrade from v1.35.0 to v1.37.0, in two steps.
// The release is not ready for any step. For a Cluster with the annotation delete-for-move, no hold begins: neither of
// the whole upgrade, nor of a step, nor of the workers. A hold that has begun continues.
func TestNoUpgradeHoldBeginsDuringMove(t *testing.T) {
	t.Parallel()
	hold := clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "h"})
	released, step, workers := clusterlife.UpgradeReleasedName(hold), clusterlife.StepHoldName(hold),
		clusterlife.WorkersHoldName(hold)
	now := " since " + controllertest.LifeNow.UTC().Format(time.RFC3339)
	const since = " since " + controllertest.HeldSince
	type values map[string]string
	for name, tc := range map[string]struct {
		running string
		before  values
		// want are the annotations after the pass; wantMoved are those of a Cluster with the annotation
		// delete-for-move.
		want, wantMoved values
	}{
		"no upgrade": {running: "v1.37.0", want: values{hold: "v1.37.0"}, wantMoved: values{}},
		"no upgrade, prepared": {running: "v1.37.0", before: values{hold: "v1.37.0"}, want: values{hold: "v1.37.0"},
			wantMoved: values{hold: "v1.37.0"}},
		"an upgrade is requested": {running: "v1.35.0", before: values{hold: "v1.35.0"},
			want:      values{hold: "v1.37.0" + now, step: "v1.36.0" + now},
			wantMoved: values{released: "v1.37.0", step: "v1.36.0"}},
		"another version is requested": {running: "v1.35.0", before: values{hold: "v1.36.0" + since},
			want:      values{hold: "v1.37.0" + now, step: "v1.36.0" + now},
			wantMoved: values{released: "v1.37.0", step: "v1.36.0"}},
		"the upgrade is held": {running: "v1.35.0", before: values{hold: "v1.37.0" + since, step: "v1.36.0" + since},
			want:      values{hold: "v1.37.0" + since, step: "v1.36.0" + since},
			wantMoved: values{hold: "v1.37.0" + since, step: "v1.36.0" + since}},
		"the next step": {running: "v1.36.0", before: values{released: "v1.37.0", step: "v1.36.0"},
			want: values{released: "v1.37.0", step: "v1.37.0" + now}, wantMoved: values{released: "v1.37.0"}},
		"the next step is held": {running: "v1.36.0", before: values{released: "v1.37.0", step: "v1.37.0" + since},
			want:      values{released: "v1.37.0", step: "v1.37.0" + since},
			wantMoved: values{released: "v1.37.0", step: "v1.37.0" + since}},
		"the workers": {running: "v1.37.0", before: values{hold: "v1.37.0",
			runtimev1.PendingHooksAnnotation: "BeforeWorkersUpgrade"},
			want: values{hold: "v1.37.0", workers: "v1.37.0" + now}, wantMoved: values{hold: "v1.37.0"}},
		"the workers are held": {running: "v1.37.0", before: values{hold: "v1.37.0", workers: "v1.37.0" + since,
			runtimev1.PendingHooksAnnotation: "BeforeWorkersUpgrade"},
			want:      values{hold: "v1.37.0", workers: "v1.37.0" + since},
			wantMoved: values{hold: "v1.37.0", workers: "v1.37.0" + since}},
	} {
		for _, isMoved := range []bool{false, true} {
			cluster, want := upgradingCluster(maps.Clone(tc.before)), tc.want
			controllertest.RequestUpgrade(cluster, "v1.37.0")
			cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
				UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.36.0"}, {Version: "v1.37.0"}}}
			if tc.running == "v1.36.0" {
				cluster.Status.ControlPlane.UpgradePlan = cluster.Status.ControlPlane.UpgradePlan[1:]
			}
			if isMoved {
				metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, clusterctlv1.DeleteForMoveAnnotation, "")
				want = tc.wantMoved
			}
			release := controllertest.HoldingRelease(time.Hour)
			release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{Timeout: metav1.Duration{Duration: time.Hour}}
			r := lifeReconciler(t, cluster, release)
			objects := controllertest.UpgradeClient(t, "ns", tc.running, true)
			r.objects, r.kinds = clusterview.NewReader(objects, objects), kindcache.New(kindcache.Options{}).NewWatcher(nil)
			r.extension = true
			after, _ := r.pass(t)
			got := values{}
			for key, value := range after.Annotations {
				if key != runtimev1.PendingHooksAnnotation && key != clusterctlv1.DeleteForMoveAnnotation {
					got[key] = value
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s, moved %t: %v, want %v", name, isMoved, got, want)
			}
		}
	}
}
