// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drifttracking"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasehealth"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

const (
	// manifestTimeout is the timeout for a read of the manifest of a release. The manifest is read only if the status
	// has no inventory of the current revision.
	manifestTimeout = 20 * time.Second
)

// Watcher watches the objects of releases in the workload clusters. See objectwatch.Watcher.
type Watcher interface {
	Expect(key types.NamespacedName, conn objectwatch.Connection, expected objectwatch.Expectation) (end func())
	Follow(key types.NamespacedName, conn objectwatch.Connection, plan objectwatch.Plan)
	Forget(key types.NamespacedName)
	Disconnect(cluster string)
	Look(key types.NamespacedName) (objectwatch.Snapshot, bool)
	List(key types.NamespacedName)
	Installed(key types.NamespacedName)
	Source() source.Source
}

// follow watches the objects of a deployed release if health or drift detection is enabled, or if a retry request needs
// their list. It sets the snapshot of the pass.
func (r *Reconciler) follow(ctx context.Context, p *releasePass) {
	release := p.release
	if !isFollowed(&release.Spec) && !isListNeeded(p) {
		r.unfollow(release)
		return
	}
	newest, ok := p.observation.Newest()
	if !ok || p.observation.State(p.desired) == model.StateForeign {
		r.unfollow(release)
		return
	}
	if newest.Status == model.StatusDeployed && !releaseinventory.IsOf(release, newest.Revision) {
		if err := r.readInventory(ctx, p, newest.Revision); err != nil {
			p.unread = fmt.Errorf("cannot read the manifest of Helm revision %d: %w", newest.Revision, err)
			return
		}
	}
	if release.Status.Inventory == nil {
		return
	}
	r.updateSnapshot(ctx, p)
}

// unfollow stops the watches of a release, and removes health and drift from its status.
func (r *Reconciler) unfollow(release *addonsv1.HelmOpRelease) {
	r.dropObjectState(client.ObjectKeyFromObject(release))
	release.Status.Inventory, release.Status.Health, release.Status.Drift = nil, nil, nil
	conditions.Delete(release, addonsv1.HealthyCondition)
	conditions.Delete(release, addonsv1.DriftedCondition)
}

// isFollowed reports whether health or drift detection needs watches of the objects.
func isFollowed(spec *addonsv1.HelmOpReleaseSpec) bool {
	return releasespec.FollowsHealth(spec) || releasespec.DriftModeOf(spec) != addonsv1.DriftModeDisabled
}

// isListNeeded reports whether a retry request needs to know which objects of the release exist. Only a release that is
// up to date needs this list: any other release is upgraded anyway.
func isListNeeded(p *releasePass) bool {
	return p.subject().NewRetryRequest() != "" && p.observation.State(p.desired) == model.StateInSync
}

// followNew sets the inventory of the revision that an action installed, and watches its objects.
func (r *Reconciler) followNew(ctx context.Context, p *releasePass, result helmclient.Result) {
	release := p.release
	if !isFollowed(&release.Spec) {
		r.unfollow(release)
		return
	}
	release.Status.Inventory = releaseinventory.Of(&release.Spec, result.Objects, result.Revision)
	p.unread = nil
	drifttracking.Forget(release)
	r.memoryOf(release).Health.Begin(release, result, r.now())
	r.watcher.Installed(client.ObjectKeyFromObject(release))
	r.updateSnapshot(ctx, p)
	// All objects may already be in their final state. No event would follow then, so the health is assessed now.
	// States from before the action do not count.
	r.assessHealth(p)
	releasestatus.Ready(release)
}

// updateSnapshot watches the objects of the inventory and sets the snapshot of the pass.
func (r *Reconciler) updateSnapshot(ctx context.Context, p *releasePass) {
	r.watch(ctx, p)
	p.snapshot = nil
	if snapshot, ok := r.watcher.Look(client.ObjectKeyFromObject(p.release)); ok {
		p.snapshot = &snapshot
	}
}

// expect keeps the states of the objects that the action of a pass creates, for followNew. Callers must call end after
// followNew.
func (r *Reconciler) expect(ctx context.Context, p *releasePass) (end func()) {
	access, err := r.engine.Access(p.target)
	if err != nil || !isFollowed(&p.release.Spec) {
		return func() {}
	}
	plan := r.planOf(p)
	return r.watcher.Expect(client.ObjectKeyFromObject(p.release), connectionOf(p, access), objectwatch.Expectation{
		Namespace: p.desired.Namespace, Name: p.desired.Name, Checker: plan.Checker, Drift: plan.Drift,
		OtherNamespaces: r.followsOtherNamespaces(ctx, p),
	})
}

// followsOtherNamespaces reports whether the manager watches, or will watch, objects of other namespaces for other
// releases of the Cluster. A user that the manager impersonates often has rights in one namespace only. Then the API
// server would refuse watches of all namespaces.
func (r *Reconciler) followsOtherNamespaces(ctx context.Context, p *releasePass) bool {
	if p.target.Impersonate != "" {
		return false
	}
	children := apiutil.ChildrenOfCluster(ctx, r.client, apiutil.ClusterKey(p.release))
	for i := range children {
		other := &children[i]
		if other.Spec.Release.Namespace != p.desired.Namespace && releasespec.Impersonated(other) == "" &&
			isFollowed(&other.Spec) {
			return true
		}
	}
	return false
}

// watch sets the watch plan of a release.
func (r *Reconciler) watch(ctx context.Context, p *releasePass) {
	access, err := r.engine.Access(p.target)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot watch the objects of the release")
		return
	}
	r.watcher.Follow(client.ObjectKeyFromObject(p.release), connectionOf(p, access), r.planOf(p))
}

// connectionOf returns the connection for the watches of a release.
func connectionOf(p *releasePass, access *model.Access) objectwatch.Connection {
	return objectwatch.Connection{Cluster: p.target.Key, Config: access.Config, Mapper: access.Mapper,
		Identity: access.Identity, Owner: access.Owner}
}

// planOf returns the watch plan of a release.
func (r *Reconciler) planOf(p *releasePass) objectwatch.Plan {
	release := p.release
	plan := objectwatch.Plan{Objects: releaseinventory.Refs(release.Status.Inventory)}
	if !isFollowed(&release.Spec) {
		// A retry request needs one list, see listForRetry.
		plan.ListEvery = r.resyncPeriod
	}
	if releasespec.FollowsHealth(&release.Spec) {
		plan.ListEvery, plan.ListSoon = r.resyncPeriod, releasehealth.LacksObjects(release)
		// assessHealth reports an expression that does not compile.
		plan.Checker, _ = releasehealth.CheckerOf(release.Spec.Health)
	}
	if releasespec.DriftModeOf(&release.Spec) != addonsv1.DriftModeDisabled {
		plan.Drift = true
		plan.Records = &objectwatch.RecordsRef{Namespace: p.desired.Namespace, Name: p.desired.Name}
	}
	return plan
}

// errNoSlot means that the concurrency limit is reached.
var errNoSlot = errors.New("the concurrency limit is reached; it is read when a slot is free")

// readInventory reads the manifest of a Helm revision from the cluster and sets the inventory. It schedules another
// pass if the read fails.
func (r *Reconciler) readInventory(ctx context.Context, p *releasePass, revision int) error {
	done, ok := r.slot(p)
	if !ok {
		return errNoSlot
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, manifestTimeout)
	defer cancel()
	var refs []inventory.Ref
	err := r.engine.Manifest(ctx, p.target, p.desired.Namespace, p.desired.Name, revision, p.options.KeepManifest,
		func(objects []*unstructured.Unstructured) { refs = inventory.FromObjects(objects) })
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Cannot read the manifest of the release; it is tried again", "why", err.Error())
		p.due(queue.Spread(requeue.UnreachableRetry, p.release))
		return err
	}
	if before := p.release.Status.Inventory; before == nil || before.Revision != int64(revision) {
		// Another program made this revision. The generations after the last action of HelmOp are not valid for it.
		r.memoryOf(p.release).Health.ForgetGenerations()
		drifttracking.Forget(p.release)
	}
	p.release.Status.Inventory = releaseinventory.Of(&p.release.Spec, refs, revision)
	return nil
}
