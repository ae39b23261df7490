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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// leftToOthers tells whether a Cluster is left as it is, and when it is looked at again: it bears what HelmOps of another shard wanted of
// it, which are on their way here or which it came from. A hold of its deletion ends in its time all the same.
func (r *clusterReconciler) leftToOthers(ctx context.Context, scope *lifeScope) (result ctrl.Result, left bool, err error) {
	if !hasUnclaimed(scope) {
		return ctrl.Result{}, false, nil
	}
	if hold := holdOf(scope.cluster); hold.isOn() && r.now().Sub(hold.since) > defaultDeletionTimeout {
		return ctrl.Result{}, false, nil
	}
	others := &addonsv1.HelmOpList{}
	err = r.live.List(ctx, others, client.InNamespace(scope.object.GetNamespace()), client.MatchingLabelsSelector{Selector: otherShards(r.shard)})
	if err != nil {
		return ctrl.Result{}, true, fmt.Errorf("listing the HelmOps of other shards: %w", err)
	}
	left = slices.ContainsFunc(others.Items, func(helmOp addonsv1.HelmOp) bool {
		return asksOfClusters(&helmOp) && selects(&helmOp, scope.cluster)
	})
	return ctrl.Result{RequeueAfter: outdatedRetry}, left, nil
}

// hasUnclaimed tells whether a Cluster bears something of ours that no HelmOp of the own shard asks for.
func hasUnclaimed(scope *lifeScope) bool {
	wanted := clusterConditions(scope.cluster, scope.helmOps, scope.releases)
	for _, known := range scope.cluster.Status.Conditions {
		ours := known.Reason == addonsv1.ReleasesReadyReason || known.Reason == addonsv1.ReleasesNotReadyReason
		if ours && !slices.ContainsFunc(wanted, func(c metav1.Condition) bool { return c.Type == known.Type }) {
			return true
		}
	}
	asking := upgradeHolders(scope)
	for _, name := range upgradeHoldNames(asking, scope.cluster.Annotations) {
		if _, claimed := asking[name]; !claimed {
			return true
		}
	}
	return holdOf(scope.cluster).isOn() && len(askingForUninstall(scope)) == 0
}
