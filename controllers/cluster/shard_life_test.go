// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// foreign is a HelmOp of shard b, and its release in the Cluster c.
func foreign(change func(*addonsv1.HelmOp, *addonsv1.HelmOpRelease)) []client.Object {
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "f", UID: "f", Labels: controllertest.OfShard("b")}}
	helmOp.Spec.ClusterSelector = &metav1.LabelSelector{}
	release := controllertest.LeavingRelease(0)
	release.Name, release.UID, release.Spec.BeforeClusterDelete = "f-c", "fc", nil
	release.OwnerReferences[0].Name, release.OwnerReferences[0].UID = helmOp.Name, helmOp.UID
	release.Labels = controllertest.OfShard("b")
	release.Labels[clusterv1.ClusterNameLabel] = "c"
	change(helmOp, release)
	return []client.Object{helmOp, release}
}

// TestOthersShareACluster has HelmOps of this shard and of another one ask something of the same Cluster: what this shard has to do is done,
// and what the other one may still want stays, the holds for a time.
func TestOthersShareACluster(t *testing.T) {
	t.Parallel()
	const held, long = "v1.36.0 since " + controllertest.HeldSince, "v1.36.0 since 2026-11-21T21:55:00Z" // 35 minutes ago
	now := "v1.36.0 since " + controllertest.LifeNow.Format(time.RFC3339)
	own, other := clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(controllertest.LeavingHelmOp())), clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "f"})
	addons := []metav1.Condition{{Type: "Addons", Reason: addonsv1.ReleasesReadyReason, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(controllertest.LifeNow)}}
	publishes := func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) { h.Spec.ClusterCondition = "Addons" }
	holds := func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) {
		h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
	}
	ends := func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
		h.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
		r.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
	}
	ownHold := controllertest.LeavingRelease(0)
	ownHold.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
	late, cni := controllertest.LeavingRelease(time.Minute), gatingHelmOp("cni", "CNIReady")
	for name, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		own     *addonsv1.HelmOpRelease
		foreign []client.Object
		// want are the annotations, and conditions the types of the conditions that HelmOps have published.
		want       map[string]string
		conditions string
		// again tells that the Cluster is looked at again for what the other shard asks.
		again bool
	}{
		"a deletion is held though a condition is not ours": {
			cluster: bearing(controllertest.GoingCluster("", false), addons), own: controllertest.LeavingRelease(time.Hour), foreign: foreign(publishes), conditions: "Addons",
			want: map[string]string{addonsv1.DeletionHoldAnnotation: controllertest.LifeNow.Format(time.RFC3339)},
		},
		"a deletion is held though a hold is not ours": {
			cluster: annotated(controllertest.GoingCluster("", false), other, "v1.35.0"), own: controllertest.LeavingRelease(time.Hour), foreign: foreign(holds),
			want: map[string]string{addonsv1.DeletionHoldAnnotation: controllertest.LifeNow.Format(time.RFC3339), other: "v1.35.0"},
		},
		"a deletion is held for another shard": {
			cluster: controllertest.GoingCluster(controllertest.HeldSince, true), foreign: foreign(ends), again: true,
			want: map[string]string{addonsv1.DeletionHoldAnnotation: controllertest.HeldSince},
		},
		"it is, too, when the time of the own one is over": {
			cluster: controllertest.GoingCluster(controllertest.HeldSince, true), own: late, foreign: foreign(ends), again: true,
			want: map[string]string{addonsv1.DeletionHoldAnnotation: controllertest.HeldSince},
		},
		"it is not for long": {
			cluster: controllertest.GoingCluster("2026-11-21T22:19:00Z", true), foreign: foreign(ends),
			want: map[string]string{addonsv1.DeletionHoldAnnotation: apiutil.DeletionHoldOver},
		},
		"it is not for one that asks for something else": {
			cluster: bearing(controllertest.GoingCluster(controllertest.HeldSince, true), addons), foreign: foreign(publishes), conditions: "Addons",
			want: map[string]string{addonsv1.DeletionHoldAnnotation: apiutil.DeletionHoldOver},
		},
		"an own hold of an upgrade ends in its time": {
			cluster: bearing(upgradingCluster(map[string]string{own: long}), addons), own: ownHold, foreign: foreign(publishes), conditions: "Addons", again: true,
			want: map[string]string{clusterlife.UpgradeReleasedName(own): "v1.36.0"},
		},
		"an own condition is beside that of another shard": {
			cluster: bearing(upgradingCluster(map[string]string{}), addons), foreign: append(foreign(publishes), &cni), want: map[string]string{},
			conditions: "Addons,CNIReady", again: true,
		},
		"what another shard does not see begins to be held": {
			cluster: upgradingCluster(map[string]string{other: "v1.35.0"}), foreign: foreign(holds), again: true,
			want: map[string]string{other: now},
		},
		"it is held on": {
			cluster: upgradingCluster(map[string]string{other: held}), foreign: foreign(holds), again: true,
			want: map[string]string{other: held},
		},
		"it is let go in time": {
			cluster: upgradingCluster(map[string]string{other: long}), foreign: foreign(holds), again: true,
			want: map[string]string{clusterlife.UpgradeReleasedName(other): "v1.36.0"},
		},
		"it is let go earlier if the HelmOp says so": {
			cluster: upgradingCluster(map[string]string{other: held}), again: true, want: map[string]string{clusterlife.UpgradeReleasedName(other): "v1.36.0"},
			foreign: foreign(func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) {
				h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{Timeout: metav1.Duration{Duration: time.Minute}}
			}),
		},
		"what was let go stays so": {
			cluster: upgradingCluster(map[string]string{clusterlife.UpgradeReleasedName(other): "v1.36.0"}), foreign: foreign(holds), again: true,
			want: map[string]string{clusterlife.UpgradeReleasedName(other): "v1.36.0"},
		},
		"what nobody asks for any more goes": {
			cluster: bearing(upgradingCluster(map[string]string{other: held}), addons), foreign: foreign(ends), want: map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := append([]client.Object{tc.cluster}, tc.foreign...)
			if tc.own != nil {
				objects = append(objects, tc.own)
			}
			r := lifeReconciler(t, objects...)
			applied := applying(r)
			got, result := r.pass(t)
			if !maps.Equal(got.Annotations, tc.want) {
				t.Errorf("annotations %v, want %v", got.Annotations, tc.want)
			}
			if applied.Status.Conditions == nil {
				applied = got
			}
			var types []string
			for _, c := range applied.Status.Conditions {
				types = append(types, c.Type)
			}
			slices.Sort(types)
			if got := strings.Join(types, ","); got != tc.conditions {
				t.Errorf("conditions %q, want %q", got, tc.conditions)
			}
			if again := result.RequeueAfter > 0 && result.RequeueAfter <= 2*requeue.OutdatedRetry; again != tc.again {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
		})
	}
}

// applying has the manager see its shard, and returns the Cluster that holds what it applies: the fake client takes nothing away that it was made with.
func applying(r *Reconciler) *clusterv1.Cluster {
	applied := &clusterv1.Cluster{}
	r.Client = &controllertest.ShardView{Client: interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, obj runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			raw, err := json.Marshal(obj)
			*applied = clusterv1.Cluster{Status: clusterv1.ClusterStatus{Conditions: []metav1.Condition{}}}
			return errors.Join(err, json.Unmarshal(raw, applied))
		},
	})}
	return applied
}

// bearing is a Cluster with conditions.
func bearing(cluster *clusterv1.Cluster, conditions []metav1.Condition) *clusterv1.Cluster {
	cluster.Status.Conditions = conditions
	return cluster
}

func annotated(cluster *clusterv1.Cluster, name, value string) *clusterv1.Cluster {
	cluster.Annotations[name] = value
	return cluster
}

// arriving is a HelmOp of this shard, published by the condition Addons, and its release in the Cluster c, which says of itself what it is told to.
func arriving(change func(*addonsv1.HelmOp, *addonsv1.HelmOpRelease)) []client.Object {
	return foreign(func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
		h.Labels, h.Spec.ClusterCondition = controllertest.OfShard(""), "Addons"
		change(h, r)
	})
}

// TestWhatArrivesChangesNothing has a HelmOp come into the shard whose releases are not known here yet, or say still that their Cluster was of
// another shard: what the Cluster says of them stays, and its deletion is held for them.
func TestWhatArrivesChangesNothing(t *testing.T) {
	t.Parallel()
	ready := metav1.Condition{Type: "Addons", Reason: addonsv1.ReleasesReadyReason, Status: metav1.ConditionTrue, Message: "the releases of 1 HelmOps are Ready",
		LastTransitionTime: metav1.NewTime(controllertest.LifeNow.Add(-time.Hour))}
	for name, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		objects []client.Object
		arrived bool
		// status is that of the condition, held that the deletion is held, again that it is looked again.
		status metav1.ConditionStatus
		held   bool
		again  bool
	}{
		"its releases are of another shard yet": {
			objects: arriving(func(*addonsv1.HelmOp, *addonsv1.HelmOpRelease) {}), status: metav1.ConditionTrue, again: true,
		},
		"they are all here, and this one is none of them": {
			objects: arriving(func(*addonsv1.HelmOp, *addonsv1.HelmOpRelease) {}), arrived: true, status: metav1.ConditionFalse,
		},
		"its release was not looked at since the Cluster came": {
			objects: arriving(func(_ *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
				r.Labels = controllertest.OfShard("")
				report.SetNotReady(r, addonsv1.OtherShardReason, "the Cluster is of another shard")
			}), arrived: true, status: metav1.ConditionTrue,
		},
		"its release is not ready": {
			objects: arriving(func(_ *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
				r.Labels = controllertest.OfShard("")
				report.SetNotReady(r, addonsv1.ProgressingReason, "on its way")
			}), arrived: true, status: metav1.ConditionFalse,
		},
		"a deletion is held for its release": {
			cluster: controllertest.GoingCluster("", false), status: metav1.ConditionTrue, held: true,
			objects: arriving(func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
				h.Spec.BeforeClusterDelete, r.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}, &addonsv1.BeforeClusterDelete{}
			}),
		},
		"a deletion is not held for one that does not ask for it": {
			cluster: controllertest.GoingCluster("", false), status: metav1.ConditionTrue,
			objects: arriving(func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) {
				h.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
			}),
		},
		"a deletion is not held for what never arrives": {
			cluster: controllertest.GoingCluster("", false), status: metav1.ConditionTrue, arrived: true,
			objects: arriving(func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
				h.Spec.BeforeClusterDelete, r.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}, &addonsv1.BeforeClusterDelete{}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := tc.cluster
			if cluster == nil {
				cluster = upgradingCluster(map[string]string{})
			}
			r := lifeReconciler(t, append(tc.objects, bearing(cluster, []metav1.Condition{ready}))...)
			applied := applying(r)
			r.HasArrived = func(*addonsv1.HelmOp) bool { return tc.arrived }
			got, result := r.pass(t)
			if applied.Status.Conditions == nil {
				applied = got
			}
			if c := conditions.Get(applied, "Addons"); c == nil || c.Status != tc.status || (c.Status == ready.Status) != c.LastTransitionTime.Equal(&ready.LastTransitionTime) {
				t.Errorf("the condition is %+v", c)
			}
			if _, held := got.Annotations[addonsv1.DeletionHoldAnnotation]; held != tc.held {
				t.Errorf("annotations %v", got.Annotations)
			}
			if again := result.RequeueAfter > 0 && result.RequeueAfter <= 2*arrivalRetry; again != tc.again {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
		})
	}
}

// TestOthersAreReadOnceForManyClusters has a hundred Clusters bear what a HelmOp of another shard asks for.
func TestOthersAreReadOnceForManyClusters(t *testing.T) {
	t.Parallel()
	const n = 100
	addons := []metav1.Condition{{Type: "Addons", Reason: addonsv1.ReleasesReadyReason, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(controllertest.LifeNow)}}
	objects := foreign(func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) { h.Spec.ClusterCondition = "Addons" })
	for i := range n {
		cluster := bearing(upgradingCluster(map[string]string{}), addons)
		cluster.Name, cluster.UID = fmt.Sprintf("c-%d", i), types.UID(fmt.Sprint(i))
		objects = append(objects, cluster)
	}
	r := lifeReconciler(t, objects...)
	lists, unread := 0, error(nil)
	now := controllertest.LifeNow
	r.Now = func() time.Time { return now }
	r.Live = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists++
			return errors.Join(unread, c.List(ctx, list, options...))
		},
	})
	applied := applying(r)
	all := func(want int) {
		t.Helper()
		lists = 0
		for i := range n {
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: fmt.Sprintf("c-%d", i)}})
			if !errors.Is(err, unread) {
				t.Fatal(err)
			}
		}
		if lists != want {
			t.Errorf("HelmOps of other shards were listed %d times, want %d", lists, want)
		}
		if applied.Status.Conditions != nil {
			t.Errorf("conditions were changed to %+v", applied.Status.Conditions)
		}
	}
	all(1)
	now = now.Add(requeue.OutdatedRetry / 2)
	all(0)
	now = now.Add(requeue.OutdatedRetry)
	all(1)
	// What cannot be asked for is believed to be theirs, and said.
	now, unread = now.Add(2*requeue.OutdatedRetry), errors.New("unread")
	all(n)
}
