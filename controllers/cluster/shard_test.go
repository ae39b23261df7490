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

// foreign returns a HelmOp of shard b, and its release in the Cluster c.
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

// TestClusterSharedWithOtherShard has HelmOps of this shard and of another shard with conditions and holds of the same
// Cluster. The conditions and holds of this shard are reconciled. The conditions and holds of the other shard are kept,
// and its holds time out.
func TestClusterSharedWithOtherShard(t *testing.T) {
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
		// want holds the expected annotations; conditions holds the expected types of conditions.
		want       map[string]string
		conditions string
		// again is true if the Cluster is reconciled again because of the other shard.
		again bool
	}{
		"deletion held despite a condition of another shard": {
			cluster: bearing(controllertest.DeletingCluster("", false), addons), own: controllertest.HoldingRelease(time.Hour),
			foreign: foreign(publishes), conditions: "Addons",
			want: map[string]string{addonsv1.DeletionHoldAnnotation: controllertest.LifeNow.Format(time.RFC3339)},
		},
		"deletion held despite a hold of another shard": {
			cluster: annotated(controllertest.DeletingCluster("", false), other, "v1.35.0"),
			own:     controllertest.HoldingRelease(time.Hour), foreign: foreign(holds),
			want: map[string]string{addonsv1.DeletionHoldAnnotation: controllertest.LifeNow.Format(time.RFC3339),
				other: "v1.35.0"},
		},
		"deletion not held for another shard": {
			cluster: controllertest.DeletingCluster(controllertest.HeldSince, true), foreign: foreign(ends),
			want: map[string]string{addonsv1.DeletionHoldAnnotation: apiutil.DeletionHoldOver},
		},
		"own upgrade hold times out": {
			cluster: bearing(upgradingCluster(map[string]string{own: long}), addons), own: ownHold, foreign: foreign(publishes),
			conditions: "Addons", again: true,
			want: map[string]string{clusterlife.UpgradeReleasedName(own): "v1.36.0"},
		},
		"own condition beside a condition of another shard": {
			cluster: bearing(upgradingCluster(map[string]string{}), addons), foreign: append(foreign(publishes), &cni),
			want:       map[string]string{},
			conditions: "Addons,CNIReady", again: true,
		},
		"upgrade hold of another shard begins": {
			cluster: upgradingCluster(map[string]string{other: "v1.35.0"}), foreign: foreign(holds), again: true,
			want: map[string]string{other: now},
		},
		"upgrade hold of another shard continues": {
			cluster: upgradingCluster(map[string]string{other: held}), foreign: foreign(holds), again: true,
			want: map[string]string{other: held},
		},
		"upgrade hold of another shard times out": {
			cluster: upgradingCluster(map[string]string{other: long}), foreign: foreign(holds), again: true,
			want: map[string]string{clusterlife.UpgradeReleasedName(other): "v1.36.0"},
		},
		"released upgrade of another shard stays released": {
			cluster: upgradingCluster(map[string]string{clusterlife.UpgradeReleasedName(other): "v1.36.0"}),
			foreign: foreign(holds), again: true,
			want: map[string]string{clusterlife.UpgradeReleasedName(other): "v1.36.0"},
		},
		"only the HelmOp was relabelled": {
			cluster: bearing(upgradingCluster(map[string]string{other: held}), addons), conditions: "Addons", again: true,
			foreign: foreign(func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
				holds(h, r)
				publishes(h, r)
				delete(r.Labels, addonsv1.ShardLabel)
			}), want: map[string]string{other: held},
		},
		"HelmOp of a release is missing": {
			cluster: bearing(upgradingCluster(map[string]string{other: held}), addons), want: map[string]string{},
			foreign: foreign(func(_ *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) { delete(r.Labels, addonsv1.ShardLabel) })[1:],
		},
		"condition and hold no longer requested": {
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
				t.Errorf("requeued after %s", result.RequeueAfter)
			}
		})
	}
}

// applying restricts the cache of the manager to its shard. It returns a Cluster with the applied fields, because the
// fake client never removes fields of its initial objects.
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

// bearing returns a Cluster with conditions.
func bearing(cluster *clusterv1.Cluster, conditions []metav1.Condition) *clusterv1.Cluster {
	cluster.Status.Conditions = conditions
	return cluster
}

func annotated(cluster *clusterv1.Cluster, name, value string) *clusterv1.Cluster {
	cluster.Annotations[name] = value
	return cluster
}

// entering returns a HelmOp of this shard with the condition Addons, and its release in the Cluster c.
func entering(change func(*addonsv1.HelmOp, *addonsv1.HelmOpRelease)) []client.Object {
	return foreign(func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
		h.Labels, h.Spec.ClusterCondition = controllertest.OfShard(""), "Addons"
		change(h, r)
	})
}

// TestConditionsStayUntilReleasesAreSettled checks that the condition of a Cluster does not change while the state of a
// release in this shard is not known.
func TestConditionsStayUntilReleasesAreSettled(t *testing.T) {
	t.Parallel()
	ready := metav1.Condition{Type: "Addons", Reason: addonsv1.ReleasesReadyReason, Status: metav1.ConditionTrue,
		Message:            "The release of 1 HelmOp is Ready",
		LastTransitionTime: metav1.NewTime(controllertest.LifeNow.Add(-time.Hour))}
	for name, tc := range map[string]struct {
		objects []client.Object
		status  metav1.ConditionStatus
	}{
		"HelmOp has not entered the shard": {
			objects: entering(func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) { h.Status.Shard = ptr.To("b") }),
			status:  metav1.ConditionTrue,
		},
		"HelmOp relabels its releases": {
			objects: entering(func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) { h.Spec.Paused = true }),
			status:  metav1.ConditionTrue,
		},
		"HelmOp in the shard without a release": {
			objects: entering(func(h *addonsv1.HelmOp, _ *addonsv1.HelmOpRelease) { h.Status.Shard = ptr.To("") }),
			status:  metav1.ConditionFalse,
		},
		"release not reconciled since the Cluster entered": {
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

// TestConditionsStayIfOtherShardsCannotBeListed has an error for the list of the releases of other shards.
func TestConditionsStayIfOtherShardsCannotBeListed(t *testing.T) {
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

// TestUpgradeConditionWithOtherShard checks that the condition about an upgrade is not True while the Cluster has a
// release of another shard: this manager cannot read that release.
func TestUpgradeConditionWithOtherShard(t *testing.T) {
	t.Parallel()
	own := controllertest.HoldingRelease(0)
	own.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: "v1.37"}
	conditions.Set(own, metav1.Condition{Type: addonsv1.KubernetesUpgradeReadyCondition, Status: metav1.ConditionTrue,
		Reason: addonsv1.KubernetesUpgradeReadyReason})
	for _, isShared := range []bool{false, true} {
		cluster := upgradingCluster(map[string]string{addonsv1.CheckUpgradeAnnotation: "v1.37"})
		objects, want := []client.Object{cluster, own}, metav1.ConditionTrue
		if isShared {
			objects = append(objects, foreign(func(*addonsv1.HelmOp, *addonsv1.HelmOpRelease) {})...)
			want = metav1.ConditionUnknown
		}
		r := lifeReconciler(t, objects...)
		applied := applying(r)
		r.pass(t)
		got := conditions.Get(applied, addonsv1.ClusterUpgradeReadyType)
		if got == nil || got.Status != want {
			t.Errorf("shared %t: %+v, want %s", isShared, got, want)
		}
	}
}
