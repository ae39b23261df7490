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
)

const (
	// maxInventory bounds the objects of a release that are followed. The status holds their names, at about 40 bytes
	// each.
	maxInventory = 2000
	// maxInventoryKinds bounds their kinds: as many as the CustomResourceDefinition takes.
	maxInventoryKinds = 500
	// maxRefText bounds the API version, the kind and the name of an object in the status.
	maxRefText = 253

	// manifestTimeout bounds the read of what a release installed, which happens only if the status was lost or if what is
	// followed changed.
	manifestTimeout = 20 * time.Second
)

// Watcher follows the objects of releases in the workload clusters.
type Watcher interface {
	Follow(key types.NamespacedName, conn objectwatch.Connection, plan objectwatch.Plan)
	Forget(key types.NamespacedName)
	Disconnect(cluster string)
	Look(key types.NamespacedName) (objectwatch.Snapshot, bool)
	List(key types.NamespacedName)
	Installed(key types.NamespacedName)
	Source() source.Source
}

// follow makes the objects of a deployed release followed, as far as anything asks for it, and takes in what is seen of
// them.
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
			p.unread = fmt.Errorf("revision %d cannot be read: %w", newest.Revision, err)
			return
		}
	}
	if release.Status.Inventory == nil {
		return
	}
	r.look(ctx, p)
}

// statusDeployed is Helm's word for a revision that was installed.
const statusDeployed = "deployed"

// unfollow forgets the objects of a release, and all that is said of them.
func (r *Reconciler) unfollow(release *addonsv1.HelmOpRelease) {
	r.dropObjectState(client.ObjectKeyFromObject(release))
	release.Status.Inventory, release.Status.Health, release.Status.Drift = nil, nil, nil
	conditions.Delete(release, addonsv1.HealthyCondition)
	conditions.Delete(release, addonsv1.DriftedCondition)
}

// isFollowed tells whether anything asks for the objects of a release to be followed.
func isFollowed(spec *addonsv1.HelmOpReleaseSpec) bool {
	return releasespec.FollowsHealth(spec) || releasespec.DriftModeOf(spec) != addonsv1.DriftModeDisabled
}

// followNew takes in what an action installed, and makes it followed.
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
	r.look(ctx, p)
	// There may be nothing that is yet to be seen, and no event to come. What was written keeps what is older from
	// counting.
	r.assessHealth(p)
	reportReady(release)
}

// look makes the objects of the inventory followed and takes in what is seen of them.
func (r *Reconciler) look(ctx context.Context, p *releasePass) {
	r.watch(ctx, p)
	p.snapshot = nil
	if snapshot, ok := r.watcher.Look(client.ObjectKeyFromObject(p.release)); ok {
		p.snapshot = &snapshot
	}
}

// watch tells the watcher what of a release is to be followed.
func (r *Reconciler) watch(ctx context.Context, p *releasePass) {
	release := p.release
	access, err := r.engine.Access(p.target)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot follow the objects of the release")
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

// errNoSlot says that others are to be waited for.
var errNoSlot = errors.New("other releases are being worked on; it is read in its turn")

// readInventory reads from the cluster what a revision installed. It sees to it that it is tried again.
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
		ctrl.LoggerFrom(ctx).Info("Cannot read what the release installed; it is tried again", "why", err.Error())
		p.due(queue.Spread(unreachableRetry, p.release))
		return err
	}
	if known := p.release.Status.Inventory; known == nil || known.Revision != int64(revision) {
		// Somebody else made this revision: what was written before says nothing of it.
		r.memoryOf(p.release).written = written{}
		forgetDrift(p.release)
	}
	p.release.Status.Inventory = inventoryOf(&p.release.Spec, inventory.FromObjects(objects), revision)
	return nil
}

// isInventoryOf tells whether the inventory of a release is that of a revision, and has all of its objects.
func isInventoryOf(release *addonsv1.HelmOpRelease, revision int) bool {
	known := release.Status.Inventory
	return known != nil && known.Revision == int64(revision) && known.Selection == wholeSelection
}

// wholeSelection says that an inventory has all objects of a release. Earlier versions had only those with a health in
// it.
const wholeSelection = "all"

// checkedKinds are the kinds, as "<apiVersion> <kind>", that a release has health checks for.
func checkedKinds(spec *addonsv1.HelmOpReleaseSpec) map[string]bool {
	kinds := map[string]bool{}
	if spec.Health != nil {
		for _, check := range spec.Health.Checks {
			kinds[check.APIVersion+" "+check.Kind] = true
		}
	}
	return kinds
}

// inventoryOf are the objects of a revision, as the status names them. Where there are too many, those with a health
// come first.
func inventoryOf(spec *addonsv1.HelmOpReleaseSpec, refs []inventory.Ref, revision int) *addonsv1.Inventory {
	known := &addonsv1.Inventory{Revision: int64(revision), Selection: wholeSelection}
	refs = slices.Clone(refs)
	inventory.Sort(refs)
	refs = slices.Compact(refs)
	// No API server has such objects, but a damaged record may name them.
	if fit := slices.DeleteFunc(refs, isTooLong); len(fit) < len(refs) {
		refs, known.Truncated = fit, true
	}
	if len(refs) > maxInventory {
		checked := checkedKinds(spec)
		slices.SortStableFunc(refs, func(a, b inventory.Ref) int { return healthRank(checked, a) - healthRank(checked, b) })
		refs, known.Truncated = refs[:maxInventory], true
	}
	kinds := map[schema.GroupVersionKind]int{}
	for _, ref := range refs {
		i, ok := kinds[ref.GroupVersionKind()]
		if !ok && len(known.Kinds) == maxInventoryKinds {
			known.Truncated = true
			break
		}
		if !ok {
			i = len(known.Kinds)
			kinds[ref.GroupVersionKind()] = i
			known.Kinds = append(known.Kinds, addonsv1.InventoryKind{APIVersion: ref.APIVersion(), Kind: ref.Kind})
		}
		known.Kinds[i].Objects = append(known.Kinds[i].Objects, strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/"))
	}
	return known
}

// isTooLong reports whether the status has no room for the name or the kind of an object.
func isTooLong(ref inventory.Ref) bool {
	return max(len(ref.APIVersion()), len(ref.Kind), len(ref.Name)) > maxRefText ||
		len(ref.Namespace) > validation.DNS1123LabelMaxLength
}

// healthRank is lower for objects with a health.
func healthRank(checked map[string]bool, ref inventory.Ref) int {
	if hasHealth(checked, ref) {
		return 0
	}
	return 1
}

// hasHealth tells whether an object's health is more than that it exists. checked are the kinds that the release has
// health checks for.
func hasHealth(checked map[string]bool, ref inventory.Ref) bool {
	return inventory.HasHealth(ref.GroupVersionKind()) || checked[ref.APIVersion()+" "+ref.Kind]
}

// refsOf are the objects that the status names. What cannot be read is left out.
func refsOf(known *addonsv1.Inventory) []inventory.Ref {
	if known == nil {
		return nil
	}
	var refs []inventory.Ref
	for _, kind := range known.Kinds {
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

// checkerOf is what judges the objects of a release.
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
