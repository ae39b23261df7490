// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
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
		if !selector.Matches(cluster) || cluster.GetDeletionTimestamp() != nil ||
			apiutil.ShardTitle(cluster) != apiutil.ShardTitle(helmOp) || matches != nil && !matches(cluster) {
			continue
		}
		isSelected, err := selector.Selects(ctx, p.Client, cluster)
		if err != nil {
			return nil, err
		}
		if isSelected {
			p.reads.add(cluster)
			keys = append(keys, client.ObjectKeyFromObject(cluster))
		}
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	return keys, nil
}

// Clusters previews a HelmOp in several Clusters at the same time. If a Cluster cannot be previewed, its result says
// why, and the others continue. key is the key for the digests that replace secrets. With nil, secrets are shown.
func (p *Previewer) Clusters(ctx context.Context, helmOp *addonsv1.HelmOp, clusters []client.ObjectKey,
	key []byte,
) ([]Result, error) {
	children, err := p.children(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(clusters))
	atOnce(clusters, func(i int, cluster client.ObjectKey) {
		title := apiutil.TitleOf(helmOp.Namespace, cluster)
		results[i] = Result{Cluster: title, Release: apiutil.ChildName(helmOp.Name, title)}
		child := children[results[i].Release]
		if number, pinned := apiutil.PinOf(child); pinned {
			results[i].Outcome = Outcome{State: StatePinned,
				Message: fmt.Sprintf("pinned to HelmOp revision %d, so the change does not reach it", number)}
		} else {
			p.preview(ctx, helmOp, cluster, child, key, &results[i])
		}
	})
	return results, nil
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

// children returns the HelmOpReleases of a HelmOp, by their names.
func (p *Previewer) children(ctx context.Context, helmOp *addonsv1.HelmOp) (map[string]*addonsv1.HelmOpRelease, error) {
	list := &addonsv1.HelmOpReleaseList{}
	if err := p.Client.List(ctx, list, client.InNamespace(helmOp.Namespace),
		client.MatchingLabels(apiutil.ChildSelector(helmOp))); err != nil {
		return nil, fmt.Errorf("listing the releases of HelmOp %s/%s: %w", helmOp.Namespace, helmOp.Name, err)
	}
	children := map[string]*addonsv1.HelmOpRelease{}
	for i := range list.Items {
		children[list.Items[i].Name] = &list.Items[i]
	}
	return children, nil
}

// preview previews a HelmOp in one Cluster. child is the existing HelmOpRelease; nil if there is none.
func (p *Previewer) preview(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey,
	child *addonsv1.HelmOpRelease, key []byte, result *Result,
) {
	release, err := p.Release(ctx, helmOp, cluster)
	if err == nil {
		releasespec.KeepIdentity(&release.HelmOpRelease.Spec, child)
	}
	if err == nil && release.unresolved == nil {
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
	result.Deferred = whyDeferred(release, &result.Outcome, time.Now())
}

// errNotReady means that a Cluster cannot have releases yet.
var errNotReady = errors.New("the control plane of the Cluster is not initialized")

func (p *Previewer) outcome(ctx context.Context, release *Release, child *addonsv1.HelmOpRelease, key []byte) (
	Outcome, error,
) {
	if !release.IsReady {
		return Outcome{}, errNotReady
	}
	if child != nil {
		if releasespec.IsDone(&release.HelmOpRelease.Spec, child) {
			return Outcome{State: StateSame, Action: string(model.ActionNone), Message: releasespec.InstalledOnce}, nil
		}
		// The UID distinguishes the records of this object from the records of a lost object.
		release.HelmOpRelease.UID = child.UID
	}
	plan, err := p.Plan(ctx, release)
	if err != nil {
		return Outcome{}, err
	}
	var masker *DiffMasker
	if key != nil {
		masker = NewDiffMasker(key, release.Values, release.SecretValues, plan.PreviousValues)
	}
	return outcomeOf(plan, masker)
}
