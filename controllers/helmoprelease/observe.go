// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// newClusterAge is the age up to which a Cluster counts as new. A list of all records is usually cheap then: the API
// server has few Secrets.
const newClusterAge = 2 * time.Hour

// checkNew sets whether the pass may take a list of all records of the Cluster for a read: in a new Cluster, one list
// serves all releases that are not installed yet. The list may be older than other reads on which actions are based.
// But the installation creates the namespace of the release right before the first record, and a namespace that did not
// exist had no records. After a pass that did not only wait for its chart or for a slot, the next pass reads the
// records.
func (r *Reconciler) checkNew(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	p.mayBeNew = p.looksNew(r.now()) && r.memoryOf(p.release).Records.IsUnread() &&
		r.engine.MayBeNew(p.target, p.desired, p.options)
	return nil, nil
}

// looksNew reports whether the Cluster is new, and nothing in the HelmOpRelease and the HelmOp shows that the release
// may be installed already, or that its records are needed before the installation.
func (p *releasePass) looksNew(now time.Time) bool {
	release, status := p.release, &p.release.Status
	isNewCluster := p.object != nil && now.Sub(p.object.GetCreationTimestamp().Time) < newClusterAge &&
		status.ClusterRecreatedAt.IsZero() && len(p.desired.FormerManagementClusters) == 0 &&
		apiutil.ClusterKey(release) != clusterlink.Management
	wasNeverTried := status.Release == nil && status.LastAttemptedDigest == "" && len(status.History) == 0 &&
		status.LastError == "" && release.Annotations[addonsv1.LostToAnnotation] == "" &&
		p.subject().NewRetryRequest() == ""
	// The next step of the rollout may need the state of the release. The check of images reads the records.
	return isNewCluster && wasNeverTried && !p.mayHoldWave() && !preflight.IsRequired(p.helmOp)
}

// observe reads Helm's records of a release. If ok is false, the read has not ended. The release is then enqueued at
// the end of the read, and keeps its position in the queue for slots.
func (r *Reconciler) observe(ctx context.Context, release *addonsv1.HelmOpRelease, target model.Target,
	desired model.Desired) (
	observation model.Observation, err error, ok bool,
) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
	key := recordreads.KeyOf(release, target, desired)
	observation, err, ok = r.reads.Observe(ctx, request, apiutil.ClusterKey(release), key,
		func(ctx context.Context) (model.Observation, error) {
			return r.engine.Observe(ctx, target, desired.Namespace, desired.Name)
		})
	r.keepRead(release, key, observation, err, ok)
	return observation, err, ok
}

// observeNew does the same as observe for a release that may be new, see recordreads.Reads.ObserveNew.
func (r *Reconciler) observeNew(ctx context.Context, p *releasePass) (observation model.Observation, err error,
	ok bool,
) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)}
	key := recordreads.KeyOf(p.release, p.target, p.desired)
	observation, err, ok = r.reads.ObserveNew(ctx, request, apiutil.ClusterKey(p.release), key,
		func(ctx context.Context) (model.Observation, error) {
			return r.engine.Observe(ctx, p.target, p.desired.Namespace, p.desired.Name)
		},
		func(ctx context.Context) (model.Observation, map[string]bool, error) {
			return r.engine.ObserveCluster(ctx, p.target, p.desired.Namespace, p.desired.Name)
		})
	r.keepRead(p.release, key, observation, err, ok)
	return observation, err, ok
}

// observeFirst does the same as observe. For the first read of an installed release, one request also reads the records
// of the other installed releases in the namespace: a manager that starts reads the records of all releases.
func (r *Reconciler) observeFirst(ctx context.Context, p *releasePass) (observation model.Observation, err error,
	ok bool,
) {
	isUnread := r.memoryOf(p.release).Records.IsUnread()
	// A correction of drift does not use the results of shared reads, see recordreads.Result.
	if !isUnread || p.release.Status.Release == nil || p.policy.CorrectDrift {
		return r.observe(ctx, p.release, p.target, p.desired)
	}
	siblings := r.siblings(ctx, p)
	if len(siblings) == 0 {
		return r.observe(ctx, p.release, p.target, p.desired)
	}
	own := recordreads.Sibling{
		Request: ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)},
		Name:    p.desired.Name, Key: recordreads.KeyOf(p.release, p.target, p.desired),
	}
	observation, err, ok = r.reads.ObserveShared(ctx, apiutil.ClusterKey(p.release), own, siblings,
		func(ctx context.Context) (map[string]model.Observation, error) {
			return r.engine.ObserveNamespace(ctx, p.target, p.desired.Namespace, p.desired.Name)
		})
	r.keepRead(p.release, own.Key, observation, err, ok)
	return observation, err, ok
}

// keepRead keeps the result of a read for one more pass. If ok is false, the read has not ended: then the release keeps
// its position in the queue for slots.
func (r *Reconciler) keepRead(release *addonsv1.HelmOpRelease, key string, observation model.Observation, err error,
	ok bool,
) {
	switch {
	case !ok:
		r.slots.Keep(client.ObjectKeyFromObject(release))
	case err == nil:
		r.memoryOf(release).Records.KeepFirst(key, observation)
	}
}

// siblings returns the other installed releases in the Cluster and the namespace of a release.
func (r *Reconciler) siblings(ctx context.Context, p *releasePass) []recordreads.Sibling {
	var siblings []recordreads.Sibling
	children := apiutil.ChildrenOfCluster(ctx, r.client, apiutil.ClusterKey(p.release))
	for i := range children {
		child := &children[i]
		if child.UID == p.release.UID || child.Spec.Release.Namespace != p.desired.Namespace ||
			child.Status.Release == nil || !child.DeletionTimestamp.IsZero() {
			continue
		}
		target := model.Target{Key: p.target.Key, Impersonate: releasespec.Impersonated(child)}
		name := model.Desired{Namespace: child.Spec.Release.Namespace, Name: child.Spec.Release.Name}
		key := client.ObjectKeyFromObject(child)
		siblings = append(siblings, recordreads.Sibling{
			Request: ctrl.Request{NamespacedName: key},
			Name:    name.Name, Key: recordreads.KeyOf(child, target, name),
			Kept: func() *recordreads.Kept { return r.recordsOf(ctx, key) },
		})
	}
	return siblings
}

// recordsOf returns what is known about the records of a release; nil if the release does not exist any more. No pass
// may have reconciled the release yet.
func (r *Reconciler) recordsOf(ctx context.Context, release client.ObjectKey) *recordreads.Kept {
	records := &r.memories.Of(release).Records
	// The pass that drops the memory of a deleted release may have run before.
	if err := r.client.Get(ctx, release, &addonsv1.HelmOpRelease{}, client.UnsafeDisableDeepCopy); err != nil {
		r.memories.Drop(release)
		return nil
	}
	return records
}
