// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// Scope holds a Cluster with its releases. All objects are shared with the cache: do not change them.
type Scope struct {
	// Object is the Cluster as the API server serves it, and Cluster is the same object in the type of Cluster API.
	Object  *unstructured.Unstructured
	Cluster *clusterv1.Cluster

	// Releases are all releases of the Cluster, including releases in other namespaces.
	Releases []addonsv1.HelmOpRelease

	// HelmOps are the HelmOps of the namespace of the Cluster.
	HelmOps []addonsv1.HelmOp
}

// ReadScope reads a Cluster with its releases. typed converts the Cluster to the type of Cluster API. The result is nil
// if the Cluster does not exist.
func ReadScope(ctx context.Context, reader client.Reader,
	typed func(*unstructured.Unstructured) (*clusterv1.Cluster, error), key client.ObjectKey,
) (*Scope, error) {
	object := apiutil.NewCluster()
	if err := reader.Get(ctx, key, object, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	cluster, err := typed(object)
	if err != nil {
		return nil, err
	}
	releases := &addonsv1.HelmOpReleaseList{}
	err = reader.List(ctx, releases, client.MatchingFields{apiutil.ClusterIndex: key.String()},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the releases of Cluster %s: %w", key, err)
	}
	helmOps := &addonsv1.HelmOpList{}
	if err := reader.List(ctx, helmOps, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the HelmOps of namespace %s: %w", key.Namespace, err)
	}
	return &Scope{Object: object, Cluster: cluster, Releases: releases.Items, HelmOps: helmOps.Items}, nil
}

// ByName returns the HelmOps of one namespace by their names. A Cluster may have hundreds of releases, and comparing
// each release with each HelmOp would take too long.
func ByName(helmOps []addonsv1.HelmOp) map[string]*addonsv1.HelmOp {
	named := make(map[string]*addonsv1.HelmOp, len(helmOps))
	for i := range helmOps {
		named[helmOps[i].Name] = &helmOps[i]
	}
	return named
}

// HelmOpOf returns the HelmOp of a release that may change or hold its Cluster; nil if it does not exist or does not
// control the release. The argument helmOps is the result of ByName.
func HelmOpOf(release *addonsv1.HelmOpRelease, helmOps map[string]*addonsv1.HelmOp) *addonsv1.HelmOp {
	if helmOp := helmOps[apiutil.HelmOpOf(release)]; MayAffectCluster(release, helmOp) {
		return helmOp
	}
	return nil
}

// ReleasesToUninstall returns copies of the releases that must be uninstalled before their Cluster is deleted.
func ReleasesToUninstall(releases []addonsv1.HelmOpRelease, helmOps []addonsv1.HelmOp) []*addonsv1.HelmOpRelease {
	var found []*addonsv1.HelmOpRelease
	named := ByName(helmOps)
	for i := range releases {
		release := &releases[i]
		if !report.IsBeingMoved(release) && RequiresUninstall(release, HelmOpOf(release, named)) {
			found = append(found, release.DeepCopy())
		}
	}
	return found
}

// UpgradeHolder is a HelmOp that holds upgrades of a Cluster.
type UpgradeHolder struct {
	HelmOp *addonsv1.HelmOp
	Before *addonsv1.BeforeClusterUpgrade

	// Release is the release that the upgrade waits for; nil if no release exists, or if it is under deletion.
	Release *addonsv1.HelmOpRelease
}

// UpgradeHolders returns the HelmOps that hold upgrades of a Cluster, by the names of their annotations. If there is a
// release, the options in the spec of the release apply, not newer options of the HelmOp. The hold does not end if a
// user deletes the release or a HelmOp replaces it.
func UpgradeHolders(cluster metav1.Object, releases []addonsv1.HelmOpRelease,
	helmOps []addonsv1.HelmOp,
) map[string]UpgradeHolder {
	holders := map[string]UpgradeHolder{}
	controlled := byController(releases)
	for i := range helmOps {
		helmOp := &helmOps[i]
		if !helmOp.DeletionTimestamp.IsZero() {
			continue
		}
		holder := UpgradeHolder{HelmOp: helmOp}
		if helmOp.Spec.BeforeClusterUpgrade != nil && Selects(helmOp, cluster) {
			holder.Before = helmOp.Spec.BeforeClusterUpgrade
		}
		for _, release := range controlled[helmOp.UID] {
			if release.DeletionTimestamp.IsZero() && MayAffectCluster(release, helmOp) {
				holder.Release, holder.Before = release, release.Spec.BeforeClusterUpgrade
			}
		}
		if holder.Before != nil {
			holders[UpgradeHoldName(client.ObjectKeyFromObject(helmOp))] = holder
		}
	}
	return holders
}

// byController returns the releases by the UIDs of their controllers. A Cluster may have hundreds of releases, so that
// comparing each release with each HelmOp would take too long.
func byController(releases []addonsv1.HelmOpRelease) map[types.UID][]*addonsv1.HelmOpRelease {
	controlled := map[types.UID][]*addonsv1.HelmOpRelease{}
	for i := range releases {
		if owner := metav1.GetControllerOfNoCopy(&releases[i]); owner != nil {
			controlled[owner.UID] = append(controlled[owner.UID], &releases[i])
		}
	}
	return controlled
}

// Apply sets what a state contains about the HelmOp and its release. The time and what is known of the Cluster must be
// set before. Limits for maintenance count for the timeout: while the release must not be changed, it cannot become
// ready.
func (h *UpgradeHolder) Apply(state *UpgradeState, cluster *clusterv1.Cluster) {
	state.Active, state.Timeout = true, UpgradeTimeout(h.Before)
	state.BeingMoved = report.IsBeingMoved(cluster)
	limits := maintenance.PolicyOf(h.HelmOp.Spec.Maintenance).For(cluster.GetAnnotations()).At(state.Now)
	state.Deferred, state.Opens = limits.Why, limits.Opens
	if h.Release != nil {
		state.Assigned = h.Release.Spec.KubernetesVersion
	}
	state.Blocked = Blocked(cluster, h.Release, state.Running)
	state.Unready = func(version string) string { return Unready(cluster, h.Release, state.Running, version) }
	state.UnreadyWorkers = func(version string) string { return UnreadyForWorkers(h.Release, version) }
}

// Selects reports whether a HelmOp selects a Cluster of its own namespace. A malformed selector selects nothing.
func Selects(helmOp *addonsv1.HelmOp, cluster metav1.Object) bool {
	selector, err := selection.SelectorOf(helmOp)
	return err == nil && selector.Matches(cluster)
}
