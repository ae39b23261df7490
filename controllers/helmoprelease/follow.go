// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
)

const (
	// maxInventory is the number of objects of a release that are watched at most. The status has their names, at about 40
	// bytes each.
	maxInventory = 2000
	// maxInventoryKinds is the number of kinds of these objects at most, as in the CustomResourceDefinition.
	maxInventoryKinds = 500
	// maxRefText is the limit, in bytes, of the API version, the kind and the name of an object in the status.
	maxRefText = 253

	// manifestTimeout is the timeout for reading the manifest of a release. The manifest is read only if the status has no
	// inventory of the current revision.
	manifestTimeout = 20 * time.Second
)

// Watcher watches the objects of releases in the workload clusters. See objectwatch.Watcher.
type Watcher interface {
	Follow(key types.NamespacedName, conn objectwatch.Connection, plan objectwatch.Plan)
	Forget(key types.NamespacedName)
	Disconnect(cluster string)
	Look(key types.NamespacedName) (objectwatch.Snapshot, bool)
	List(key types.NamespacedName)
	Installed(key types.NamespacedName)
	Source() source.Source
}

// follow watches the objects of a deployed release if health or drift detection is enabled, and sets the snapshot of
// the pass.
func (r *Reconciler) follow(ctx context.Context, p *releasePass) {
	release := p.release
	if !isFollowed(&release.Spec) {
		r.unfollow(release)
		return
	}
	newest, ok := p.observation.Newest()
	if !ok || p.observation.State(p.desired) == model.StateForeign {
		r.unfollow(release)
		return
	}
	if newest.Status == statusDeployed && !isInventoryOf(release, newest.Revision) {
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

// statusDeployed is Helm's status of a revision that was installed.
const statusDeployed = "deployed"

// unfollow stops watching the objects of a release, and removes their health and drift from its status.
func (r *Reconciler) unfollow(release *addonsv1.HelmOpRelease) {
	r.dropObjectState(client.ObjectKeyFromObject(release))
	release.Status.Inventory, release.Status.Health, release.Status.Drift = nil, nil, nil
	conditions.Delete(release, addonsv1.HealthyCondition)
	conditions.Delete(release, addonsv1.DriftedCondition)
}

// isFollowed reports whether the objects of a release are watched, for health or for drift detection.
func isFollowed(spec *addonsv1.HelmOpReleaseSpec) bool {
	return releasespec.FollowsHealth(spec) || releasespec.DriftModeOf(spec) != addonsv1.DriftModeDisabled
}

// followNew sets the inventory of a revision that an action installed, and watches its objects.
func (r *Reconciler) followNew(ctx context.Context, p *releasePass, result helmclient.Result) {
	release := p.release
	if !isFollowed(&release.Spec) {
		return
	}
	release.Status.Inventory = inventoryOf(&release.Spec, result.Objects, result.Revision)
	p.unread = nil
	forgetDrift(release)
	r.beginHealth(release, result)
	r.watcher.Installed(client.ObjectKeyFromObject(release))
	r.updateSnapshot(ctx, p)
	// All objects may be in their final state already, without further events. States from before the action do not count.
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

// watch sets the watch plan of a release.
func (r *Reconciler) watch(ctx context.Context, p *releasePass) {
	release := p.release
	access, err := r.engine.Access(p.target)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot watch the objects of the release")
		return
	}
	plan := objectwatch.Plan{Objects: refsOf(release.Status.Inventory)}
	if releasespec.FollowsHealth(&release.Spec) {
		plan.ListEvery, plan.ListSoon = r.resyncPeriod, lacksObjects(release)
		// An expression that cannot be compiled is reported where health is assessed.
		plan.Checker, _ = checkerOf(release.Spec.Health)
	}
	if releasespec.DriftModeOf(&release.Spec) != addonsv1.DriftModeDisabled {
		plan.Drift = true
		plan.Records = &objectwatch.RecordsRef{Namespace: p.desired.Namespace, Name: p.desired.Name}
	}
	r.watcher.Follow(client.ObjectKeyFromObject(release), objectwatch.Connection{
		Cluster: p.target.Key, Config: access.Config, Mapper: access.Mapper, Identity: access.Identity, Owner: access.Owner,
	}, plan)
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
	objects, err := r.engine.Manifest(ctx, p.target, p.desired.Namespace, p.desired.Name, revision)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Cannot read the manifest of the release; it is tried again", "why", err.Error())
		p.due(queue.Spread(unreachableRetry, p.release))
		return err
	}
	if before := p.release.Status.Inventory; before == nil || before.Revision != int64(revision) {
		// Another program made this revision, so the generations of the last action do not apply.
		r.memoryOf(p.release).written = written{}
		forgetDrift(p.release)
	}
	p.release.Status.Inventory = inventoryOf(&p.release.Spec, inventory.FromObjects(objects), revision)
	return nil
}

// isInventoryOf reports whether the inventory in the status is complete and belongs to a Helm revision.
func isInventoryOf(release *addonsv1.HelmOpRelease, revision int) bool {
	current := release.Status.Inventory
	return current != nil && current.Revision == int64(revision) && current.Selection == wholeSelection
}

// wholeSelection marks an inventory with all objects of a release. Earlier versions of HelmOp included only objects
// with a health.
const wholeSelection = "all"

// checkedKinds returns the kinds for which a release has health checks, in the form "<apiVersion> <kind>".
func checkedKinds(spec *addonsv1.HelmOpReleaseSpec) map[string]bool {
	kinds := map[string]bool{}
	if spec.Health != nil {
		for _, check := range spec.Health.Checks {
			kinds[check.APIVersion+" "+check.Kind] = true
		}
	}
	return kinds
}

// inventoryOf returns the objects of a Helm revision in the form of the status. If there are too many, objects with a
// health take precedence.
func inventoryOf(spec *addonsv1.HelmOpReleaseSpec, refs []inventory.Ref, revision int) *addonsv1.Inventory {
	result := &addonsv1.Inventory{Revision: int64(revision), Selection: wholeSelection}
	refs = slices.Clone(refs)
	inventory.Sort(refs)
	refs = slices.Compact(refs)
	// API servers refuse such objects, but a damaged record may have them.
	if fit := slices.DeleteFunc(refs, isTooLong); len(fit) < len(refs) {
		refs, result.Truncated = fit, true
	}
	if len(refs) > maxInventory {
		checked := checkedKinds(spec)
		slices.SortStableFunc(refs, func(a, b inventory.Ref) int { return healthRank(checked, a) - healthRank(checked, b) })
		refs, result.Truncated = refs[:maxInventory], true
	}
	kinds := map[schema.GroupVersionKind]int{}
	for _, ref := range refs {
		i, ok := kinds[ref.GroupVersionKind()]
		if !ok && len(result.Kinds) == maxInventoryKinds {
			result.Truncated = true
			break
		}
		if !ok {
			i = len(result.Kinds)
			kinds[ref.GroupVersionKind()] = i
			result.Kinds = append(result.Kinds, addonsv1.InventoryKind{APIVersion: ref.APIVersion(), Kind: ref.Kind})
		}
		result.Kinds[i].Objects = append(result.Kinds[i].Objects, strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/"))
	}
	return result
}

// isTooLong reports whether the name or the kind of an object is too long for the status.
func isTooLong(ref inventory.Ref) bool {
	return max(len(ref.APIVersion()), len(ref.Kind), len(ref.Name)) > maxRefText ||
		len(ref.Namespace) > validation.DNS1123LabelMaxLength
}

// healthRank returns a sort key, which is lower for objects with a health.
func healthRank(checked map[string]bool, ref inventory.Ref) int {
	if hasHealth(checked, ref) {
		return 0
	}
	return 1
}

// hasHealth reports whether an existing object can be unhealthy. checked are the kinds for which the release has health
// checks.
func hasHealth(checked map[string]bool, ref inventory.Ref) bool {
	return inventory.HasHealth(ref.GroupVersionKind()) || checked[ref.APIVersion()+" "+ref.Kind]
}

// refsOf returns references to the objects of an inventory. It leaves out objects whose API version is not valid.
func refsOf(objects *addonsv1.Inventory) []inventory.Ref {
	if objects == nil {
		return nil
	}
	var refs []inventory.Ref
	for _, kind := range objects.Kinds {
		gv, err := schema.ParseGroupVersion(kind.APIVersion)
		if err != nil {
			continue
		}
		for _, object := range kind.Objects {
			namespace, name, ok := strings.Cut(object, "/")
			if !ok {
				namespace, name = "", object
			}
			refs = append(refs, inventory.Ref{Group: gv.Group, Version: gv.Version, Kind: kind.Kind, Namespace: namespace,
				Name: name})
		}
	}
	return refs
}

// checkerOf returns the checker for the health of the objects of a release. The error means that an expression in the
// health checks is not valid.
func checkerOf(spec *addonsv1.HealthOptions) (*health.Checker, error) {
	if spec == nil {
		return health.NewChecker(nil)
	}
	checks := make([]health.Check, len(spec.Checks))
	for i, check := range spec.Checks {
		checks[i] = health.Check(check)
	}
	return health.NewChecker(checks)
}
