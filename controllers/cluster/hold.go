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

// beginHold pauses a Cluster under deletion. spec.paused stops everybody who serves the Cluster; the paused annotation would stop
// only the controller of the Cluster itself, and Cluster API heard of the deletion when we did: the control plane may be
// marked for deletion by now.
func (r *Reconciler) beginHold(ctx context.Context, scope *lifeScope, releases int) error {
	began, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := apiutil.TypedCluster(object)
		if err != nil {
			return false, err
		}
		if cluster.DeletionTimestamp.IsZero() || apiutil.IsClusterPaused(cluster) || !apiutil.HoldOf(cluster).MayBegin() {
			// Somebody else paused it: then nothing is done until that ends.
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

// endHold lets the deletion of a Cluster go on. Late are the releases that are still there.
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

// changeHold changes a Cluster as it is now, and tells whether it did; the cached one is tried first. Nobody else's write is
// lost, and no pause of somebody else taken for ours.
func (r *Reconciler) changeHold(ctx context.Context, scope *lifeScope, change func(*unstructured.Unstructured) (bool, error)) (bool, error) {
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

	// release is what the upgrade waits for; nil while there is none that stays.
	release *addonsv1.HelmOpRelease
}

// upgradeHolders are those that hold upgrades of the Cluster, by the names of their annotations. What a release was told counts, not what
// other Clusters are told already. One that is deleted by hand, or makes way to another one, does not end the hold.
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

// upgradeHoldNames are the names of the annotations that are wanted, or there and of this controller, in order.
func upgradeHoldNames(holders map[string]upgradeHolder, annotations map[string]string) []string {
	names := sets.KeySet(holders)
	for name, value := range annotations {
		if clusterlife.IsUpgradeHold(name, value) {
			names.Insert(name)
		}
		if released, ok := strings.CutPrefix(name, addonsv1.UpgradeReleasedAnnotationPrefix+"/"); ok {
			hold := clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/" + released
			// Who else holds by that name is not ours to release.
			if value, held := annotations[hold]; !held || clusterlife.IsUpgradeHold(hold, value) {
				names.Insert(hold)
			}
		}
	}
	return sets.List(names)
}

// mayBeginHold tells whether a hold may stand that does not. It does before the control plane serves, so that Cluster API never knows the
// Cluster without an annotation of ours, see UpgradeReleasedName; and before it has a release, for those are made later than that. In a
// Cluster that serves, one that has no release yet has nothing to protect.
func mayBeginHold(cluster *clusterv1.Cluster, holder upgradeHolder, held bool) bool {
	return held || holder.release != nil || !apiutil.IsInitialized(cluster)
}

// versionToBegin is the version that the control plane runs, or that it is to be made with where it is yet to be.
func versionToBegin(cluster *clusterv1.Cluster, s clusterlife.UpgradeState) string {
	if s.Running == "" && !s.Held && s.Released == "" && !cluster.Spec.ControlPlaneRef.IsDefined() && !apiutil.IsInitialized(cluster) {
		return cluster.Spec.Topology.Version
	}
	return s.Running
}

// noteUpgrade has annotations say what was decided.
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
