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
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capilabels "sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// lifeClaims are conditions of a Cluster, by their types, and holds of its upgrades, by the names of their annotations, with how long they
// last at most where that is known.
type lifeClaims struct {
	conditions sets.Set[string]
	holds      map[string]time.Duration
}

func (c lifeClaims) isEmpty() bool { return len(c.conditions)+len(c.holds) == 0 }

// readOthers finds out what a Cluster bears for HelmOps of other shards, which are on their way here or which it came from. Their managers do
// not see it. What is found is left as it is, the holds for a time; nothing else waits for that.
func (r *clusterReconciler) readOthers(ctx context.Context, scope *lifeScope) error {
	unclaimed := unclaimedOf(scope)
	if unclaimed.isEmpty() {
		return nil
	}
	others := &addonsv1.HelmOpList{}
	err := r.live.List(ctx, others, client.InNamespace(scope.object.GetNamespace()), client.MatchingLabelsSelector{Selector: otherShards(r.shard)})
	if err != nil {
		return fmt.Errorf("listing the HelmOps of other shards: %w", err)
	}
	scope.foreign = foreignClaims(scope.cluster, unclaimed, others.Items)
	return nil
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
		name, before := upgradeHoldName(client.ObjectKeyFromObject(helmOp)), helmOp.Spec.BeforeClusterUpgrade
		if _, ok := unclaimed.holds[name]; ok && before != nil {
			foreign.holds[name] = min(upgradeTimeout(before), defaultUpgradeTimeout)
		}
	}
	return foreign
}

// keptConditions are the conditions that a Cluster bears for HelmOps of other shards, as they are.
func keptConditions(scope *lifeScope) []metav1.Condition {
	var kept []metav1.Condition
	for _, known := range scope.cluster.Status.Conditions {
		if scope.foreign.conditions.Has(known.Type) && isOfHelmOp(known) {
			kept = append(kept, known)
		}
	}
	return kept
}

// foreignHold has an upgrade wait for a HelmOp of another shard, for a time: its manager neither sees that an upgrade is wanted nor can let it go.
// When HelmOp and Cluster are of one shard again, the hold goes on, for it is the same annotation.
func foreignHold(state *upgradeState, timeout time.Duration) {
	state.wanted, state.timeout = true, timeout
	state.unready = func(string) string {
		return "its HelmOp is of another shard than the Cluster: give both the same label " + addonsv1.ShardLabel
	}
}

// restForOthers is how long the deletion of a Cluster is held yet for releases of other shards; 0 or less if it is not. Among them are those
// whose HelmOp has come here before them.
func (r *clusterReconciler) restForOthers(ctx context.Context, scope *lifeScope, hold deletionHold) (time.Duration, error) {
	bound := hold.since.Add(defaultDeletionTimeout).Sub(r.now())
	if bound <= 0 {
		return 0, nil
	}
	releases := &addonsv1.HelmOpReleaseList{}
	err := r.live.List(ctx, releases, client.InNamespace(scope.cluster.Namespace), client.MatchingLabelsSelector{Selector: otherShards(r.shard)},
		client.MatchingLabels{clusterv1.ClusterNameLabel: capilabels.MustFormatValue(scope.cluster.Name)})
	if err != nil {
		return 0, fmt.Errorf("listing the releases of other shards: %w", err)
	}
	var rest time.Duration
	for i := range releases.Items {
		release, helmOp := &releases.Items[i], &addonsv1.HelmOp{}
		if clusterKey(release) != client.ObjectKeyFromObject(scope.cluster) {
			continue // A long name may share its label with another one.
		}
		err := r.live.Get(ctx, client.ObjectKey{Namespace: release.Namespace, Name: helmOpOf(release)}, helmOp)
		if client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("reading the HelmOp of release %s of another shard: %w", release.Name, err)
		}
		if err == nil && asksForUninstall(release, helmOp) {
			rest = max(rest, min(bound, deletionRest(hold, release, r.now())))
		}
	}
	return rest, nil
}
