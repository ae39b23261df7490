// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
)

// beginHold pauses a Cluster under deletion. spec.paused stops all controllers of the Cluster; the paused annotation
// would stop only the controller of the Cluster object. Cluster API sees the deletion at the same time, so the
// control plane may be under deletion already.
func (r *Reconciler) beginHold(ctx context.Context, scope *lifeScope, releases int) error {
	began, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := apiutil.TypedCluster(object)
		if err != nil {
			return false, err
		}
		if cluster.DeletionTimestamp.IsZero() || apiutil.IsClusterPaused(cluster) || !apiutil.HoldOf(cluster).MayBegin() {
			// Another program paused the Cluster: nothing is done until that ends.
			return false, nil
		}
		setAnnotation(object, addonsv1.DeletionHoldAnnotation, r.now().UTC().Format(time.RFC3339))
		return true, unstructured.SetNestedField(object.Object, true, "spec", "paused")
	})
	if err != nil {
		return fmt.Errorf("holding the deletion of the Cluster: %w", err)
	}
	if began {
		r.eventAt(scope, nil, eventType(false), addonsv1.ClusterDeletionHeldEvent, "HoldDeletion",
			fmt.Sprintf("The Cluster is paused until %d releases are uninstalled", releases))
	}
	return nil
}

// endHold ends the hold of the deletion of a Cluster. late are the releases that still exist.
func (r *Reconciler) endHold(ctx context.Context, scope *lifeScope, late []string) error {
	ended, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := apiutil.TypedCluster(object)
		if err != nil || !apiutil.HoldOf(cluster).IsOn() {
			return false, err
		}
		setAnnotation(object, addonsv1.DeletionHoldAnnotation, apiutil.DeletionHoldOver)
		unstructured.RemoveNestedField(object.Object, "spec", "paused")
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("letting the deletion of the Cluster go on: %w", err)
	}
	if !ended {
		return nil
	}
	slices.Sort(late)
	message := "No release holds the deletion of the Cluster any more: the deletion continues"
	if len(late) > 0 {
		message = fmt.Sprintf("The deletion of the Cluster continues. Releases that were not uninstalled in time: %s",
			strings.Join(late[:min(len(late), maxNamedReleases)], ", "))
	}
	r.eventAt(scope, nil, eventType(len(late) > 0), addonsv1.ClusterDeletionReleasedEvent, "HoldDeletion", message)
	return nil
}

// changeHold changes the current Cluster, and reports whether it did. It tries the cached Cluster first. A write of
// another program is not lost, and the pause of another program is not taken for a hold.
func (r *Reconciler) changeHold(ctx context.Context, scope *lifeScope,
	change func(*unstructured.Unstructured) (bool, error),
) (bool, error) {
	object, first, changed := scope.object, true, false
	err := retry.OnError(retry.DefaultBackoff, isOvertaken, func() error {
		if !first {
			changed, object = false, apiutil.NewCluster()
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(scope.object), object); err != nil {
				return client.IgnoreNotFound(err)
			}
		}
		first = false
		after := object.DeepCopy()
		var err error
		if changed, err = change(after); err != nil || !changed {
			return err
		}
		patch, err := holdPatch(object, after)
		if err != nil {
			return err
		}
		return r.client.Patch(ctx, after, patch)
	})
	return changed && err == nil, err
}

func setAnnotation(object client.Object, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// upgradeHolder is a HelmOp that holds upgrades of a Cluster.
type upgradeHolder struct {
	helmOp *addonsv1.HelmOp
	before *addonsv1.BeforeClusterUpgrade

	// release is the release that the upgrade waits for; nil while there is none that stays.
	release *addonsv1.HelmOpRelease
}

// upgradeHolders are the HelmOps that hold upgrades of the Cluster, by the names of their annotations. The options in
// the spec of the release count, not newer ones of the HelmOp. A release that is deleted by hand or replaced does not
// end the hold.
func upgradeHolders(scope *lifeScope) map[string]upgradeHolder {
	holders := map[string]upgradeHolder{}
	for i := range scope.helmOps {
		helmOp := &scope.helmOps[i]
		if !helmOp.DeletionTimestamp.IsZero() {
			continue
		}
		holder := upgradeHolder{helmOp: helmOp}
		if selects(helmOp, scope.cluster) {
			holder.before = helmOp.Spec.BeforeClusterUpgrade
		}
		for j := range scope.releases {
			if release := &scope.releases[j]; release.DeletionTimestamp.IsZero() && clusterlife.TakesPart(release, helmOp) {
				holder.release, holder.before = release, release.Spec.BeforeClusterUpgrade
			}
		}
		if holder.before != nil {
			holders[clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(helmOp))] = holder
		}
	}
	return holders
}

// upgradeHoldNames are the names of the annotations that are asked for, or that exist and are of this controller, in
// order.
func upgradeHoldNames(holders map[string]upgradeHolder, annotations map[string]string) []string {
	names := sets.KeySet(holders)
	for name, value := range annotations {
		if clusterlife.IsUpgradeHold(name, value) {
			names.Insert(name)
		}
		if released, ok := strings.CutPrefix(name, addonsv1.UpgradeReleasedAnnotationPrefix+"/"); ok {
			hold := clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/" + released
			// A hold of another program by this name must stay.
			if value, held := annotations[hold]; !held || clusterlife.IsUpgradeHold(hold, value) {
				names.Insert(hold)
			}
		}
	}
	return sets.List(names)
}

// mayBeginHold reports whether a hold may be set that does not exist yet. It may before the control plane is
// initialized, even without a release, so that Cluster API never sees the Cluster without an annotation of ours (see
// UpgradeReleasedName). Later, a Cluster without a release has nothing to protect.
func mayBeginHold(cluster *clusterv1.Cluster, holder upgradeHolder, held bool) bool {
	return held || holder.release != nil || !apiutil.IsInitialized(cluster)
}

// versionToBegin is the version that the control plane runs, or will have if it does not exist yet.
func versionToBegin(cluster *clusterv1.Cluster, s clusterlife.UpgradeState) string {
	if s.Running == "" && !s.Held && s.Released == "" && !cluster.Spec.ControlPlaneRef.IsDefined() &&
		!apiutil.IsInitialized(cluster) {
		return cluster.Spec.Topology.Version
	}
	return s.Running
}

// noteUpgrade writes a decision into annotations.
func noteUpgrade(annotations map[string]string, name string, verdict clusterlife.UpgradeVerdict) {
	released := clusterlife.UpgradeReleasedName(name)
	delete(annotations, name)
	delete(annotations, released)
	if verdict.Held {
		annotations[name] = verdict.Value
	}
	if verdict.Released != "" {
		annotations[released] = verdict.Released
	}
}
