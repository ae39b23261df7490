// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
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
)

// foreign is a HelmOp of shard b, and its release in the Cluster c.
func foreign(change func(*addonsv1.HelmOp, *addonsv1.HelmOpRelease)) []client.Object {
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "f", UID: "f",
		Labels: controllertest.OfShard("b")}}
	helmOp.Spec.ClusterSelector = &metav1.LabelSelector{}
	release := controllertest.HoldingRelease(0)
	release.Name, release.UID, release.Spec.BeforeClusterDelete = "f-c", "fc", nil
	release.OwnerReferences[0].Name, release.OwnerReferences[0].UID = helmOp.Name, helmOp.UID
	release.Labels = controllertest.OfShard("b")
	release.Labels[clusterv1.ClusterNameLabel] = "c"
	change(helmOp, release)
	return []client.Object{helmOp, release}
}

// TestOthersShareACluster has HelmOps of this shard and of another one ask something of the same Cluster: what this
// shard has to do is done, and what the other one may still want stays, the holds for a time.
func TestOthersShareACluster(t *testing.T) {
	t.Parallel()
	const held, long = "v1.36.0 since " + controllertest.HeldSince, "v1.36.0 since 2026-11-21T21:55:00Z" // 35 minutes ago
	now := "v1.36.0 since " + controllertest.LifeNow.Format(time.RFC3339)
	own, other := clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(controllertest.HoldingHelmOp())),
		clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "f"})
	addons := []metav1.Condition{{Type: "Addons", Reason: addonsv1.ReleasesReadyReason, Status: metav1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(controllertest.LifeNow)}}
	publishes := func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) { h.Spec.ClusterCondition = "Addons" }
	holds := func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) {
		h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
	}
	ends := func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
		h.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
		r.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
	}
	ownHold := controllertest.HoldingRelease(0)
	ownHold.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
	cni := gatingHelmOp("cni", "CNIReady")
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
			cluster: bearing(controllertest.DeletingCluster("", false), addons), own: controllertest.HoldingRelease(time.Hour),
			foreign: foreign(publishes), conditions: "Addons",
			want: map[string]string{addonsv1.DeletionHoldAnnotation: controllertest.LifeNow.Format(time.RFC3339)},
		},
		"a deletion is held though a hold is not ours": {
			cluster: annotated(controllertest.DeletingCluster("", false), other, "v1.35.0"),
			own:     controllertest.HoldingRelease(time.Hour), foreign: foreign(holds),
			want: map[string]string{addonsv1.DeletionHoldAnnotation: controllertest.LifeNow.Format(time.RFC3339),
				other: "v1.35.0"},
		},
		"it is not held for another shard": {
			cluster: controllertest.DeletingCluster(controllertest.HeldSince, true), foreign: foreign(ends),
			want: map[string]string{addonsv1.DeletionHoldAnnotation: apiutil.DeletionHoldOver},
		},
		"an own hold of an upgrade ends in its time": {
			cluster: bearing(upgradingCluster(map[string]string{own: long}), addons), own: ownHold, foreign: foreign(publishes),
			conditions: "Addons", again: true,
			want: map[string]string{clusterlife.UpgradeReleasedName(own): "v1.36.0"},
		},
		"an own condition is beside that of another shard": {
			cluster: bearing(upgradingCluster(map[string]string{}), addons), foreign: append(foreign(publishes), &cni),
			want:       map[string]string{},
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
		"what was let go stays so": {
			cluster: upgradingCluster(map[string]string{clusterlife.UpgradeReleasedName(other): "v1.36.0"}),
			foreign: foreign(holds), again: true,
			want: map[string]string{clusterlife.UpgradeReleasedName(other): "v1.36.0"},
		},
		"only the label of the HelmOp was changed": {
			cluster: bearing(upgradingCluster(map[string]string{other: held}), addons), conditions: "Addons", again: true,
			foreign: foreign(func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
				holds(h, r)
				publishes(h, r)
				delete(r.Labels, addonsv1.ShardLabel)
			}), want: map[string]string{other: held},
		},
		"the HelmOp of a release is gone": {
			cluster: bearing(upgradingCluster(map[string]string{other: held}), addons), want: map[string]string{},
			foreign: foreign(func(_ *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) { delete(r.Labels, addonsv1.ShardLabel) })[1:],
		},
		"what no HelmOp asks for any more goes": {
			cluster: bearing(upgradingCluster(map[string]string{other: held}), addons), want: map[string]string{},
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
			if again := result.RequeueAfter > 0 && result.RequeueAfter <= 2*foreignRetry; again != tc.again {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
		})
	}
}

// applying has the manager see its shard, and returns the Cluster that holds what it applies: the fake client takes
// nothing away that it was made with.
func applying(r *Reconciler) *clusterv1.Cluster {
	applied := &clusterv1.Cluster{}
	r.client = &controllertest.ShardView{Client: interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, obj runtime.ApplyConfiguration,
			_ ...client.SubResourceApplyOption) error {
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

// entering is a HelmOp of this shard, published by the condition Addons, and its release in the Cluster c.
func entering(change func(*addonsv1.HelmOp, *addonsv1.HelmOpRelease)) []client.Object {
	return foreign(func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
		h.Labels, h.Spec.ClusterCondition = controllertest.OfShard(""), "Addons"
		change(h, r)
	})
}

// TestConditionsStayUntilReleasesAreSettled has a HelmOp whose releases do not have their state of this shard yet: the
// condition of the Cluster stays as it is.
func TestConditionsStayUntilReleasesAreSettled(t *testing.T) {
	t.Parallel()
	ready := metav1.Condition{Type: "Addons", Reason: addonsv1.ReleasesReadyReason, Status: metav1.ConditionTrue,
		Message:            "the releases of 1 HelmOps are Ready",
		LastTransitionTime: metav1.NewTime(controllertest.LifeNow.Add(-time.Hour))}
	for name, tc := range map[string]struct {
		objects []client.Object
		status  metav1.ConditionStatus
	}{
		"the HelmOp has not entered the shard": {
			objects: entering(func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) { h.Status.Shard = ptr.To("b") }),
			status:  metav1.ConditionTrue,
		},
		"the HelmOp is bringing its releases along": {
			objects: entering(func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) { h.Spec.Paused = true }),
			status:  metav1.ConditionTrue,
		},
		"the HelmOp is of the shard, and has no release here": {
			objects: entering(func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) { h.Status.Shard = ptr.To("") }),
			status:  metav1.ConditionFalse,
		},
		"the release was not reconciled since the Cluster entered": {
			objects: entering(func(_ *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
				r.Labels = controllertest.OfShard("")
				report.SetNotReady(r, addonsv1.OtherShardReason, "the Cluster is of another shard")
			}), status: metav1.ConditionTrue,
		},
		"the release is not ready": {
			objects: entering(func(_ *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
				r.Labels = controllertest.OfShard("")
				report.SetNotReady(r, addonsv1.ProgressingReason, "progressing")
			}), status: metav1.ConditionFalse,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lifeReconciler(t, append(tc.objects,
				bearing(upgradingCluster(map[string]string{}), []metav1.Condition{ready}))...)
			applied := applying(r)
			got, _ := r.pass(t)
			if applied.Status.Conditions == nil {
				applied = got
			}
			if c := conditions.Get(applied, "Addons"); c == nil || c.Status != tc.status ||
				(c.Status == ready.Status) != c.LastTransitionTime.Equal(&ready.LastTransitionTime) {
				t.Errorf("the condition is %+v", c)
			}
		})
	}
}

// TestNothingIsKnownAgainstUnreadReleases cannot list the releases of other shards.
func TestNothingIsKnownAgainstUnreadReleases(t *testing.T) {
	t.Parallel()
	addons := []metav1.Condition{{Type: "Addons", Reason: addonsv1.ReleasesReadyReason, Status: metav1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(controllertest.LifeNow)}}
	r := lifeReconciler(t, bearing(upgradingCluster(map[string]string{}), addons))
	unread := errors.New("unread")
	r.live = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return unread },
	})
	applied := applying(r)
	if _, err := r.Reconcile(t.Context(),
		ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "c"}}); !errors.Is(err, unread) {
		t.Errorf("err = %v, want the one of the list", err)
	}
	if applied.Status.Conditions != nil {
		t.Errorf("conditions were changed to %+v", applied.Status.Conditions)
	}
}
