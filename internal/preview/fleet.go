// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// clustersAtOnce is the number of Clusters that are previewed at the same time.
const clustersAtOnce = 16

// Selected returns the Clusters that a HelmOp selects, sorted by name. matches selects among these Clusters; nil
// selects all of them. Selected omits Clusters of another shard and Clusters under deletion, as the manager does.
func (p *Previewer) Selected(ctx context.Context, helmOp *addonsv1.HelmOp,
	matches func(*unstructured.Unstructured) bool,
) ([]client.ObjectKey, error) {
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		return nil, err
	}
	if helmOp.Spec.ManagementCluster != nil {
		return []client.ObjectKey{clusterlink.Management}, nil
	}
	var options []client.ListOption
	if helmOp.Spec.ClusterNamespaces == nil {
		options = append(options, client.InNamespace(helmOp.Namespace))
	}
	list := apiutil.NewClusterList()
	if err := p.Client.List(ctx, list, options...); err != nil {
		return nil, err
	}
	var keys []client.ObjectKey
	for i := range list.Items {
		cluster := &list.Items[i]
		p.reads.add(cluster)
		if !selector.Matches(cluster) || cluster.GetDeletionTimestamp() != nil ||
			apiutil.ShardTitle(cluster) != apiutil.ShardTitle(helmOp) || matches != nil && !matches(cluster) {
			continue
		}
		isSelected, err := selector.Selects(ctx, p.Client, cluster)
		if err != nil {
			return nil, err
		}
		if isSelected {
			keys = append(keys, client.ObjectKeyFromObject(cluster))
		}
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	return keys, nil
}

// Clusters previews a HelmOp in several Clusters at the same time. If a Cluster cannot be previewed, its result says
// why, and the others continue. key is the key for the digests that replace secrets. With nil, secrets are shown.
//
// Among the Clusters that have a release of the HelmOp but are not selected, others chooses the Clusters to add: the
// manager would uninstall these releases. With nil, no Cluster is added.
func (p *Previewer) Clusters(ctx context.Context, helmOp *addonsv1.HelmOp, clusters []client.ObjectKey,
	others func(*unstructured.Unstructured) bool, key []byte,
) ([]Result, error) {
	children, err := p.children(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	if others != nil {
		clusters = append(slices.Clip(clusters), p.leaving(ctx, helmOp, children, clusters, others)...)
	}
	results := make([]Result, len(clusters))
	atOnce(clusters, func(i int, cluster client.ObjectKey) {
		title := apiutil.TitleOf(helmOp.Namespace, cluster)
		results[i] = Result{Cluster: title, Release: apiutil.ChildName(helmOp.Name, title)}
		p.preview(ctx, helmOp, cluster, children[results[i].Release], key, &results[i])
	})
	return results, nil
}

// leaving returns the Clusters of children that are not among the selected Clusters, sorted by name. It omits children
// that the manager does not delete: those of a Cluster under deletion, and those of a Cluster of another shard, unless
// their releases stay. It also omits children under deletion, and those of a Cluster that does not exist: their
// deletion changes nothing in a cluster. If a Cluster cannot be read, leaving returns it: its preview has the error.
func (p *Previewer) leaving(ctx context.Context, helmOp *addonsv1.HelmOp, children map[string]*addonsv1.HelmOpRelease,
	selected []client.ObjectKey, matches func(*unstructured.Unstructured) bool,
) []client.ObjectKey {
	var keys []client.ObjectKey
	known := sets.New(selected...)
	for _, name := range slices.Sorted(maps.Keys(children)) {
		child := children[name]
		key := apiutil.ClusterKey(child)
		if child.DeletionTimestamp != nil || known.Has(key) {
			continue
		}
		cluster, err := clusterview.ReadCluster(ctx, p.Client, key, helmOp.Labels[addonsv1.ShardLabel])
		if err == nil && (cluster.GetDeletionTimestamp() != nil || !matches(cluster) ||
			p.isHeldByOtherShard(ctx, helmOp, child, cluster)) {
			continue
		}
		if !apierrors.IsNotFound(err) {
			keys = append(keys, key)
		}
	}
	return keys
}

// atOnce calls a function for each Cluster. A limited number of calls run at the same time.
func atOnce(clusters []client.ObjectKey, do func(i int, cluster client.ObjectKey)) {
	var group errgroup.Group
	group.SetLimit(clustersAtOnce)
	for i, cluster := range clusters {
		group.Go(func() error {
			do(i, cluster)
			return nil
		})
	}
	// The functions return no errors.
	_ = group.Wait()
}

// unchecked returns the state of a Cluster whose release could not be checked because of an error, and the text about
// it. A Cluster that is not ready is a failure if it has the release, because a change can break the release. child is
// the existing HelmOpRelease; nil if there is none.
func unchecked(err error, child *addonsv1.HelmOpRelease) (State, string) {
	switch {
	case !errors.Is(err, ErrNoKubeconfig) && !errors.Is(err, errNotReady):
		return StateFailed, err.Error()
	case child != nil:
		return StateFailed, err.Error() + "; the Cluster has a release that is not checked"
	default:
		return StateNotReady, err.Error()
	}
}

// isHeldByOtherShard reports whether the manager does not change a release because its Cluster has another shard: the
// manager then only orphans releases in Clusters that are no longer selected. child is nil if there is no release.
func (p *Previewer) isHeldByOtherShard(ctx context.Context, helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease,
	cluster *unstructured.Unstructured,
) bool {
	if apiutil.ShardTitle(cluster) == apiutil.ShardTitle(helmOp) {
		return false
	}
	if child == nil || apiutil.DeletionPolicy(child, helmOp) != addonsv1.DeletionPolicyOrphan {
		return true
	}
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		return true
	}
	isSelected, err := selector.Selects(ctx, p.Client, cluster)
	return err != nil || isSelected
}

// children returns the HelmOpReleases of a HelmOp, by their names.
func (p *Previewer) children(ctx context.Context, helmOp *addonsv1.HelmOp) (map[string]*addonsv1.HelmOpRelease, error) {
	list := &addonsv1.HelmOpReleaseList{}
	if err := p.Client.List(ctx, list, client.InNamespace(helmOp.Namespace),
		client.MatchingLabels(apiutil.ChildSelector(helmOp))); err != nil {
		return nil, fmt.Errorf("listing the releases of HelmOp %s/%s: %w", helmOp.Namespace, helmOp.Name, err)
	}
	children := map[string]*addonsv1.HelmOpRelease{}
	for i := range list.Items {
		p.reads.add(&list.Items[i])
		children[list.Items[i].Name] = &list.Items[i]
	}
	return children, nil
}

// preview previews a HelmOp in one Cluster. child is the existing HelmOpRelease; nil if there is none.
func (p *Previewer) preview(ctx context.Context, helmOp *addonsv1.HelmOp, key client.ObjectKey,
	child *addonsv1.HelmOpRelease, secretKey []byte, result *Result,
) {
	cluster, isSelected, err := p.readCluster(ctx, helmOp, key)
	if err != nil {
		result.State, result.Message = unchecked(err, child)
		return
	}
	number, pinned := apiutil.PinOf(child)
	isDeleted := cluster.object.GetDeletionTimestamp() != nil
	isHeld := p.isHeldByOtherShard(ctx, helmOp, child, cluster.object)
	result.NotCovered = !isSelected || pinned || isDeleted || isHeld || !apiutil.IsInitialized(cluster.typed)
	switch {
	case isDeleted:
		result.Outcome = Outcome{State: StateFailed,
			Message: "the Cluster is being deleted, so HelmOp would not install or upgrade the release in it"}
	case isHeld && (isSelected || child != nil):
		result.Outcome = Outcome{State: StateFailed, Message: apiutil.OtherShardMessage(cluster.object, helmOp)}
	case !isSelected:
		result.Outcome = leave(helmOp, child)
	case pinned:
		result.Outcome = Outcome{State: StatePinned,
			Message: fmt.Sprintf("pinned to HelmOp revision %d, so the change does not reach it", number)}
	default:
		p.change(ctx, helmOp, key, child, secretKey, result)
	}
	result.Deferred = whyDeferred(helmOp, cluster.object.GetAnnotations(), &result.Outcome, time.Now())
}

// change previews the change of a HelmOp in a Cluster that it selects. The arguments are the same as for preview.
func (p *Previewer) change(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey,
	child *addonsv1.HelmOpRelease, key []byte, result *Result,
) {
	release, err := p.Release(ctx, helmOp, cluster)
	if err == nil {
		releasespec.KeepIdentity(&release.HelmOpRelease.Spec, child)
	}
	if err == nil && release.unresolved == nil && !result.NotCovered {
		result.ApprovalHash, err = approval.HashOfSpec(apiutil.TitleOf(helmOp.Namespace, cluster),
			&release.HelmOpRelease.Spec)
	}
	if err == nil {
		result.Outcome, err = p.outcome(ctx, release, child, key)
	}
	if err != nil {
		result.Outcome = Outcome{}
		result.State, result.Message = unchecked(err, child)
	}
}

// leave returns the outcome for a Cluster that the HelmOp does not select. child is nil if the Cluster has no release.
func leave(helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) Outcome {
	const why = "the HelmOp does not select the Cluster"
	switch {
	case child == nil || child.DeletionTimestamp != nil:
		return Outcome{State: StateFailed, Message: why + ", so it would install nothing in it"}
	case hasLostAccess(helmOp, child):
		return Outcome{State: StateFailed, Message: selection.DeniedError(helmOp, apiutil.ClusterKey(child)).Error() +
			"; release " + rolloutstate.Identity(&child.Spec) + " stays in the cluster"}
	case stays(helmOp, child):
		return Outcome{State: StateDiffers, Action: ActionOrphan, Message: why + ": HelmOp would leave release " +
			rolloutstate.Identity(&child.Spec) + " in the cluster, and no longer manage it"}
	default:
		return Outcome{State: StateDiffers, Action: string(model.ActionUninstall), Message: why +
			": HelmOp would uninstall release " + rolloutstate.Identity(&child.Spec)}
	}
}

// hasLostAccess reports whether a HelmOp may no longer access the Cluster of a release, because the Cluster is in
// another namespace. The manager then neither changes nor deletes the release. With clusterNamespaces, only the manager
// knows the access.
func hasLostAccess(helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) bool {
	key := apiutil.ClusterKey(child)
	return key != clusterlink.Management && key.Namespace != helmOp.Namespace && helmOp.Spec.ClusterNamespaces == nil
}

// stays reports whether the release of a HelmOpRelease stays in its cluster when the manager deletes the HelmOpRelease.
func stays(helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) bool {
	return child.Annotations[addonsv1.OrphanAnnotation] == "true" ||
		apiutil.DeletionPolicy(child, helmOp) == addonsv1.DeletionPolicyOrphan
}

// errNotReady means that a Cluster cannot have releases yet.
var errNotReady = errors.New("the control plane of the Cluster is not initialized")

func (p *Previewer) outcome(ctx context.Context, release *Release, child *addonsv1.HelmOpRelease, key []byte) (
	Outcome, error,
) {
	if !release.IsReady {
		return Outcome{}, errNotReady
	}
	isReplaced := child != nil && child.Spec.Release != release.HelmOpRelease.Spec.Release
	switch {
	case child == nil:
	case releasespec.IsDone(&release.HelmOpRelease.Spec, child):
		return Outcome{State: StateSame, Action: string(model.ActionNone), Message: releasespec.InstalledOnce}, nil
	case !isReplaced:
		release.keep(child)
	}
	plan, err := p.Plan(ctx, release)
	if err != nil {
		return Outcome{}, err
	}
	if isReplaced {
		replace(&plan, release, child)
	}
	var masker *DiffMasker
	if key != nil {
		var former map[string]any
		if isReplaced {
			if former, err = p.formerValues(ctx, release, child, &plan); err != nil {
				return Outcome{}, err
			}
		}
		masker = NewDiffMasker(key, release.Values, release.SecretValues, plan.PreviousValues, former)
	}
	outcome, err := outcomeOf(plan, masker)
	if isReplaced {
		outcome.State, outcome.Action = StateDiffers, ActionReplace
	}
	return outcome, err
}

// keep gives the desired release the metadata and the status of the existing object, so that the plan knows which
// records belong to the object, and whether another HelmOp has taken over the release. The owner stays that of the
// desired release: a backup tool may have removed the owner of the object, and the manager sets it again.
func (r *Release) keep(child *addonsv1.HelmOpRelease) {
	desired := r.HelmOpRelease
	r.HelmOpRelease = child.DeepCopy()
	r.HelmOpRelease.Spec, r.HelmOpRelease.OwnerReferences = desired.Spec, desired.OwnerReferences
	apiutil.InheritLabels(r.HelmOpRelease.Labels, r.HelmOp)
}

// past returns the results of earlier attempts that influence a plan.
func (r *Release) past() model.Past {
	subject := attempts.Subject{Release: r.HelmOpRelease, HelmOp: r.HelmOp}
	subject.InitRetryRequest()
	return model.Past{WasOurs: subject.WasOurs()}
}

// replace turns the plan for a release into the plan for its replacement. A release with another name or namespace is
// another release: the manager first deletes child, and with it the former release.
func replace(plan *model.Plan, release *Release, child *addonsv1.HelmOpRelease) {
	former, now := rolloutstate.Identity(&child.Spec), rolloutstate.Identity(&release.HelmOpRelease.Spec)
	message := "first uninstalls release " + former
	if stays(release.HelmOp, child) {
		message = "leaves release " + former + " in the cluster, and no longer manages it"
	} else {
		for i := range plan.Changes {
			change := &plan.Changes[i]
			annotations, isFormer := belongsTo(change, former)
			if !isFormer || inventory.IsKept(annotations) {
				continue
			}
			change.Kind, change.Reason = model.ChangeRecreate, model.ReasonUnchecked
			change.Message = "the object belongs to release " + former + ", which is uninstalled first"
		}
	}
	message += ", because the release is " + now + " now"
	if plan.Message != "" {
		message += "; " + plan.Message
	}
	plan.Message = message
}

// belongsTo returns the annotations of an object in the cluster, and whether they name a release as its owner.
func belongsTo(change *model.Change, release string) (annotations map[string]string, belongs bool) {
	annotations = (&unstructured.Unstructured{Object: change.Before}).GetAnnotations()
	return annotations, annotations[inventory.HelmReleaseNamespace]+"/"+annotations[inventory.HelmReleaseName] == release
}

// formerValues returns the values in the Helm record of the former release, which child installed. The objects of the
// former release contain its secrets. If there is no record, their secrets are not known: then formerValues removes the
// contents of these objects from the plan.
func (p *Previewer) formerValues(ctx context.Context, release *Release, child *addonsv1.HelmOpRelease,
	plan *model.Plan,
) (map[string]any, error) {
	target, err := p.target(ctx, &Release{HelmOp: release.HelmOp, HelmOpRelease: child})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	former := rolloutstate.Identity(&child.Spec)
	values, err := p.Engine.PreviousValues(ctx, target, child.Spec.Release.Namespace, child.Spec.Release.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the values of release %s, to hide its secrets: %w", former, err)
	}
	if values == nil {
		hideContents(plan, former)
	}
	return values, nil
}

// hideContents removes the contents of the objects that belong to a release. It also replaces the remarks on them: an
// API server may quote an object.
func hideContents(plan *model.Plan, release string) {
	for i := range plan.Changes {
		change := &plan.Changes[i]
		if _, belongs := belongsTo(change, release); belongs {
			change.Before, change.After = nil, nil
			change.Message = "the content is hidden, because it may have secrets that are not known: there is no Helm record " +
				"of release " + release
		}
	}
}
