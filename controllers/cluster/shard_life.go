// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	capilabels "sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// lifeClaims are conditions of a Cluster, by their types, and holds of its upgrades, by the names of their annotations, with how long they
// last at most where that is known.
type lifeClaims struct {
	conditions sets.Set[string]
	holds      map[string]time.Duration
}

func (c lifeClaims) isEmpty() bool { return len(c.conditions)+len(c.holds) == 0 }

// covers tells whether all that others claim is among them.
func (c lifeClaims) covers(others lifeClaims) bool {
	for name := range others.holds {
		if _, ok := c.holds[name]; !ok {
			return false
		}
	}
	return c.conditions.IsSuperset(others.conditions)
}

// otherHelmOps are the HelmOps of other shards that ask something of Clusters, by namespace, as they were a moment ago: each Cluster of a
// thousand that come without their HelmOp would read all of them. The zero value is empty; it is safe for concurrent use.
type otherHelmOps struct {
	mu          sync.Mutex
	byNamespace map[string]knownHelmOps
}

type knownHelmOps struct {
	helmOps []addonsv1.HelmOp
	at      time.Time
}

// of are those of a namespace, unless they are too old.
func (o *otherHelmOps) of(namespace string, now time.Time) []addonsv1.HelmOp {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.byNamespace[namespace]; now.Sub(known.at) < requeue.OutdatedRetry {
		return known.helmOps
	}
	delete(o.byNamespace, namespace)
	return nil
}

func (o *otherHelmOps) set(namespace string, helmOps []addonsv1.HelmOp, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byNamespace == nil {
		o.byNamespace = map[string]knownHelmOps{}
	}
	o.byNamespace[namespace] = knownHelmOps{helmOps: helmOps, at: now}
}

// readOthers finds out what a Cluster bears for HelmOps of other shards, which are on their way here or which it came from. Their managers do
// not see it. What is found is left as it is, the holds for a time, and so is all that may be theirs after an error; nothing else waits for that.
func (r *Reconciler) readOthers(ctx context.Context, scope *lifeScope) error {
	unclaimed := unclaimedOf(scope)
	if unclaimed.isEmpty() {
		return nil
	}
	// What was claimed a moment ago is. That something was not says nothing: its HelmOp may have left since.
	namespace := scope.object.GetNamespace()
	scope.foreign = foreignClaims(scope.cluster, unclaimed, r.others.of(namespace, r.Now()))
	if scope.foreign.covers(unclaimed) {
		return nil
	}
	others := &addonsv1.HelmOpList{}
	err := r.Live.List(ctx, others, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: apiutil.OtherShards(r.Shard)})
	if err != nil {
		for name := range unclaimed.holds {
			unclaimed.holds[name] = clusterlife.DefaultUpgradeTimeout
		}
		scope.foreign = unclaimed
		return fmt.Errorf("listing the HelmOps of other shards: %w", err)
	}
	others.Items = slices.DeleteFunc(others.Items, func(h addonsv1.HelmOp) bool { return !asksOfClusters(&h) })
	r.others.set(namespace, others.Items, r.Now())
	scope.foreign = foreignClaims(scope.cluster, unclaimed, others.Items)
	return nil
}

// findUnsettled finds the conditions about HelmOps that came into this shard a moment ago: not all of their releases are known here yet, or that
// of this Cluster says still that it was of another shard. Until that is settled, nothing is known against what they say.
func (r *Reconciler) findUnsettled(scope *lifeScope) {
	unsettled := sets.Set[string]{}
	for i := range scope.helmOps {
		helmOp := &scope.helmOps[i]
		if helmOp.Spec.ClusterCondition != "" && selects(helmOp, scope.cluster) && !r.HasArrived(helmOp) {
			unsettled.Insert(helmOp.Spec.ClusterCondition)
			scope.isArriving = true
		}
	}
	for i := range scope.releases {
		helmOp := scope.helmOpOf(&scope.releases[i])
		if helmOp.Spec.ClusterCondition != "" && conditions.GetReason(&scope.releases[i], addonsv1.ReadyCondition) == addonsv1.OtherShardReason {
			unsettled.Insert(helmOp.Spec.ClusterCondition)
		}
	}
	scope.unsettled = unsettled
}

// unclaimedOf is what a Cluster bears of ours that no HelmOp of the own shard asks for.
func unclaimedOf(scope *lifeScope) lifeClaims {
	unclaimed := lifeClaims{conditions: sets.Set[string]{}, holds: map[string]time.Duration{}}
	wanted := clusterConditions(scope.cluster, scope.helmOps, scope.releases)
	for _, known := range scope.cluster.Status.Conditions {
		if isOfHelmOp(known) && !slices.ContainsFunc(wanted, func(c metav1.Condition) bool { return c.Type == known.Type }) {
			unclaimed.conditions.Insert(known.Type)
		}
	}
	asking := upgradeHolders(scope)
	for _, name := range upgradeHoldNames(asking, scope.cluster.Annotations) {
		if _, claimed := asking[name]; !claimed {
			unclaimed.holds[name] = 0
		}
	}
	return unclaimed
}

// foreignClaims is what HelmOps of other shards ask for of what nobody here does.
func foreignClaims(cluster *clusterv1.Cluster, unclaimed lifeClaims, others []addonsv1.HelmOp) lifeClaims {
	foreign := lifeClaims{conditions: sets.Set[string]{}, holds: map[string]time.Duration{}}
	for i := range others {
		helmOp := &others[i]
		if !helmOp.DeletionTimestamp.IsZero() || !selects(helmOp, cluster) {
			continue
		}
		if unclaimed.conditions.Has(helmOp.Spec.ClusterCondition) {
			foreign.conditions.Insert(helmOp.Spec.ClusterCondition)
		}
		name, before := clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(helmOp)), helmOp.Spec.BeforeClusterUpgrade
		if _, ok := unclaimed.holds[name]; ok && before != nil {
			foreign.holds[name] = min(clusterlife.UpgradeTimeout(before), clusterlife.DefaultUpgradeTimeout)
		}
	}
	return foreign
}

// keptConditions are the conditions that a Cluster bears for HelmOps of other shards, or for those that came from there, as they are.
func keptConditions(scope *lifeScope) []metav1.Condition {
	var kept []metav1.Condition
	for _, known := range scope.cluster.Status.Conditions {
		if (scope.foreign.conditions.Has(known.Type) || scope.unsettled.Has(known.Type)) && isOfHelmOp(known) {
			kept = append(kept, known)
		}
	}
	return kept
}

// foreignHold has an upgrade wait for a HelmOp of another shard, for a time: its manager neither sees that an upgrade is wanted nor can let it go.
// When HelmOp and Cluster are of one shard again, the hold goes on, for it is the same annotation.
func foreignHold(state *clusterlife.UpgradeState, timeout time.Duration) {
	state.Wanted, state.Timeout = true, timeout
	state.Unready = func(string) string {
		return "its HelmOp is of another shard than the Cluster: give both the same label " + addonsv1.ShardLabel
	}
}

// restForOthers is how long the deletion of a Cluster is held yet for releases of other shards; 0 or less if it is not. Among them are those
// whose HelmOp has come here before them.
func (r *Reconciler) restForOthers(ctx context.Context, scope *lifeScope, hold apiutil.DeletionHold) (time.Duration, error) {
	bound := hold.Since.Add(clusterlife.DefaultDeletionTimeout).Sub(r.Now())
	if bound <= 0 {
		return 0, nil
	}
	asking, err := r.readAsking(ctx, scope, client.MatchingLabelsSelector{Selector: apiutil.OtherShards(r.Shard)})
	var rest time.Duration
	for _, release := range asking {
		rest = max(rest, min(bound, clusterlife.DeletionRest(hold, release, r.Now())))
	}
	return rest, err
}

// holdForArriving holds the deletion of a Cluster for releases whose HelmOps came into this shard a moment ago. The cache does not have all of them
// yet, and Cluster API does not wait.
func (r *Reconciler) holdForArriving(ctx context.Context, scope *lifeScope) error {
	if !slices.ContainsFunc(scope.helmOps, func(helmOp addonsv1.HelmOp) bool {
		return helmOp.Spec.BeforeClusterDelete != nil && selects(&helmOp, scope.cluster) && !r.HasArrived(&helmOp)
	}) {
		return nil
	}
	asking, err := r.readAsking(ctx, scope)
	if err != nil || len(asking) == 0 {
		return err
	}
	return r.beginHold(ctx, scope, len(asking))
}

// readAsking reads which releases are to be uninstalled before the Cluster goes, of all shards or of those that the options choose.
func (r *Reconciler) readAsking(ctx context.Context, scope *lifeScope, options ...client.ListOption) ([]*addonsv1.HelmOpRelease, error) {
	releases := &addonsv1.HelmOpReleaseList{}
	err := r.Live.List(ctx, releases, append([]client.ListOption{client.InNamespace(scope.cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: capilabels.MustFormatValue(scope.cluster.Name)}}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("listing the releases of the Cluster in other shards: %w", err)
	}
	var asking []*addonsv1.HelmOpRelease
	for i := range releases.Items {
		release, helmOp := &releases.Items[i], &addonsv1.HelmOp{}
		if apiutil.ClusterKey(release) != client.ObjectKeyFromObject(scope.cluster) {
			continue // A long name may share its label with another one.
		}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: release.Namespace, Name: apiutil.HelmOpOf(release)}, helmOp)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading the HelmOp of release %s of another shard: %w", release.Name, err)
		}
		if err == nil && !report.IsBeingMoved(release) && clusterlife.AsksForUninstall(release, helmOp) {
			asking = append(asking, release)
		}
	}
	return asking, nil
}
