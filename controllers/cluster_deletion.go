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
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

const (
	// deletionHoldOver is the value of the annotation when the deletion of the Cluster went on.
	deletionHoldOver = "over"

	// deletionHoldSuspended is the value while somebody pauses the Cluster during the hold, by the paused annotation.
	deletionHoldSuspended = "suspended"

	// defaultDeletionTimeout is that of the API, for releases that were written without its defaults.
	defaultDeletionTimeout = 10 * time.Minute
)

// deletionHold is whether the deletion of a Cluster is held until releases are uninstalled.
type deletionHold struct {
	// since is from when on; zero if the hold is over or has not begun.
	since time.Time

	// over tells that it was.
	over bool

	// suspended tells that a user paused the Cluster during the hold, so that the deletion does not go on when the hold
	// would end.
	suspended bool

	// malformed tells that the value of the annotation means nothing.
	malformed bool
}

// isOn tells whether the deletion is held now.
func (h deletionHold) isOn() bool { return !h.since.IsZero() }

// mayBegin tells whether a hold can begin.
func (h deletionHold) mayBegin() bool { return !h.isOn() && !h.over }

// holdOf is the hold of a Cluster's deletion.
func holdOf(cluster *clusterv1.Cluster) deletionHold {
	value, ok := cluster.Annotations[addonsv1.DeletionHoldAnnotation]
	if !ok || cluster.DeletionTimestamp.IsZero() {
		return deletionHold{}
	}
	switch value {
	case deletionHoldOver:
		return deletionHold{over: true}
	case deletionHoldSuspended:
		return deletionHold{suspended: true}
	}
	since, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return deletionHold{malformed: true}
	}
	return deletionHold{since: since}
}

// takesPart tells whether a release may take part in the life of its Cluster: a HelmOp of the Cluster's own namespace has made it.
// Whoever may only read the kubeconfig of a Cluster, or writes a release of his own, must not change the Cluster itself by that. The
// HelmOp is nil if it is gone; one under deletion is not.
func takesPart(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) bool {
	return helmOp != nil && clusterKey(release).Namespace == release.Namespace && helmOp.Namespace == release.Namespace &&
		helmOpOf(release) == helmOp.Name && metav1.IsControlledBy(release, helmOp)
}

// asksForUninstall tells whether a release is to be uninstalled before its Cluster goes. What is paused or suspended is not:
// nothing will be done for it, so there is nothing to wait for. The HelmOp is nil if it is gone.
func asksForUninstall(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) bool {
	if release.Spec.BeforeClusterDelete == nil || isChildPaused(release) || !takesPart(release, helmOp) {
		return false
	}
	if isHelmOpPaused(helmOp) {
		return false
	}
	return deletionPolicy(release, helmOp) != addonsv1.DeletionPolicyOrphan
}

// uninstallsBeforeDeletion tells whether a release is still to be uninstalled before its Cluster, which is under deletion, goes.
func uninstallsBeforeDeletion(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp, now time.Time) bool {
	hold := holdOf(cluster)
	return !hold.over && asksForUninstall(release, helmOp) && (!hold.isOn() || deletionRest(hold, release, now) > 0)
}

// uninstallsBefore tells whether a release is to be uninstalled although its Cluster goes.
func (r *releaseReconciler) uninstallsBefore(scope *releaseScope) bool {
	return scope.cluster != nil && uninstallsBeforeDeletion(scope.cluster, scope.release, scope.helmOp, r.now())
}

// deletionTimeout is how long the deletion is held for a release.
func deletionTimeout(release *addonsv1.HelmOpRelease) time.Duration {
	if before := release.Spec.BeforeClusterDelete; before != nil && before.Timeout.Duration > 0 {
		return before.Timeout.Duration
	}
	return defaultDeletionTimeout
}

// deletionRest is how long the deletion is held for a release yet; 0 or less if that is over.
func deletionRest(hold deletionHold, release *addonsv1.HelmOpRelease, now time.Time) time.Duration {
	since := hold.since
	if since.After(now) {
		since = now
	}
	return since.Add(deletionTimeout(release)).Sub(now)
}

// beforeDeletion has an uninstallation before the Cluster goes wait until the objects are gone, what others do for them included:
// once the Cluster is gone, nobody takes away a load balancer. It ends with the hold, or earlier if the user says so.
func beforeDeletion(options *model.UninstallOptions, cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease, now time.Time) {
	hold := holdOf(cluster)
	if !hold.isOn() {
		return
	}
	options.Wait = true
	rest := max(deletionRest(hold, release, now), time.Second)
	if options.Timeout <= 0 || options.Timeout > rest {
		options.Timeout = rest
	}
}

// uninstallSlot takes a slot for an uninstallation. One that is to wait, and finds too many others that do until three quarters of its
// time are over, is done without waiting: that is better than never. If done is nil, there is no slot: the release is woken in its
// turn, or looks again after wait if that is not 0.
func (r *releaseReconciler) uninstallSlot(scope *releaseScope, options *model.UninstallOptions, cluster, helmOp string) (done func(), wait time.Duration) {
	if scope.cluster != nil {
		beforeDeletion(options, scope.cluster, scope.release, r.now())
	}
	claim := slots.Claim{Release: client.ObjectKeyFromObject(scope.release), Cluster: cluster, HelmOp: helmOp}
	if options.Wait {
		claim.Ending = true
		if done, ok := r.slots.Acquire(claim); ok {
			return done, 0
		}
		if scope.cluster == nil || !holdOf(scope.cluster).isOn() {
			return nil, 0
		}
		if rest := deletionRest(holdOf(scope.cluster), scope.release, r.now()) - deletionTimeout(scope.release)/4; rest > 0 {
			return nil, rest
		}
		claim.Ending, options.Wait = false, false
	}
	done, _ = r.slots.Acquire(claim)
	return done, 0
}

// lastUninstallFailed tells whether an uninstallation was the last thing done for a release, and failed.
func lastUninstallFailed(release *addonsv1.HelmOpRelease) bool {
	history := release.Status.History
	return len(history) > 0 && history[0].Action == verbUninstall && !history[0].Succeeded
}

// noteUnseen notes that a release ends while the deletion of its Cluster is held, and nobody saw that all of its objects are gone.
// Helm forgets a release whose objects did not go in time, so there is nothing left to wait for.
func (r *releaseReconciler) noteUnseen(scope *releaseScope, unseen bool) {
	if unseen && scope.cluster != nil && holdOf(scope.cluster).isOn() {
		r.unseen.add(clusterKey(scope.release), scope.release.Name)
	}
}

// unseenReleases are those of Clusters whose deletion is held, of which nobody saw that they are wholly gone. It is about what an
// Event says, so it is not kept beyond the life of the process.
type unseenReleases struct {
	mu    sync.Mutex
	names map[client.ObjectKey]sets.Set[string]
}

func (u *unseenReleases) add(cluster client.ObjectKey, release string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.names == nil {
		u.names = map[client.ObjectKey]sets.Set[string]{}
	}
	if u.names[cluster] == nil {
		u.names[cluster] = sets.Set[string]{}
	}
	u.names[cluster].Insert(release)
}

// take returns and forgets those of a Cluster, in order.
func (u *unseenReleases) take(cluster client.ObjectKey) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer delete(u.names, cluster)
	return sets.List(u.names[cluster])
}
