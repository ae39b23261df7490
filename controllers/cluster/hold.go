// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// beginHold pauses a Cluster under deletion. It sets spec.paused, which stops all controllers of the Cluster; the
// paused annotation would stop only the controller of the Cluster object. Cluster API observes the deletion at the same
// time, so the control plane may be under deletion already.
func (r *Reconciler) beginHold(ctx context.Context, scope *lifeScope, releases int) error {
	began, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := apiutil.TypedCluster(object)
		if err != nil {
			return false, err
		}
		if cluster.DeletionTimestamp.IsZero() || apiutil.IsClusterPaused(cluster) || !apiutil.HoldOf(cluster).MayBegin() {
			// Another program paused the Cluster: the hold must not begin before the pause ends.
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
			fmt.Sprintf("The Cluster is paused until %s uninstalled",
				plural.Count(releases, "release with beforeClusterDelete is", "releases with beforeClusterDelete are")))
	}
	return nil
}

// endHold ends the hold of the deletion of a Cluster. late are the names of the releases that still exist.
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
		return fmt.Errorf("ending the hold of the deletion of the Cluster: %w", err)
	}
	if !ended {
		return nil
	}
	slices.Sort(late)
	message := "No release holds the deletion of the Cluster any longer: the deletion continues"
	if len(late) > 0 {
		message = fmt.Sprintf("The deletion of the Cluster continues, although %s not uninstalled in time: %s",
			plural.Count(len(late), "release was", "releases were"),
			strings.Join(late[:min(len(late), maxNamedReleases)], ", "))
	}
	r.eventAt(scope, nil, eventType(len(late) > 0), addonsv1.ClusterDeletionReleasedEvent, "HoldDeletion", message)
	return nil
}

// changeHold changes the current Cluster, and reports whether it did. It tries the cached Cluster first, and then reads
// the Cluster from the API server. So it does not overwrite a change of another program, and does not treat the pause
// of another program as a hold.
func (r *Reconciler) changeHold(ctx context.Context, scope *lifeScope,
	change func(*unstructured.Unstructured) (bool, error),
) (bool, error) {
	object, first, changed := scope.object, true, false
	err := retry.OnError(retry.DefaultBackoff, isConflict, func() error {
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

	// release is the release that the upgrade waits for; nil if no release exists, or if it is under deletion.
	release *addonsv1.HelmOpRelease
}

// upgradeHolders returns the HelmOps that hold upgrades of the Cluster, by the names of their annotations. If there is
// a release, the options in its spec apply, not newer options of the HelmOp. A release that is deleted by hand or
// replaced does not end the hold.
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
			release := &scope.releases[j]
			if release.DeletionTimestamp.IsZero() && clusterlife.MayAffectCluster(release, helmOp) {
				holder.release, holder.before = release, release.Spec.BeforeClusterUpgrade
			}
		}
		if holder.before != nil {
			holders[clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(helmOp))] = holder
		}
	}
	return holders
}

// upgradeHoldNames returns the names of the annotations of upgrade holders, and of annotations of this controller that
// exist, in order.
func upgradeHoldNames(holders map[string]upgradeHolder, annotations map[string]string) []string {
	names := sets.KeySet(holders)
	for name, value := range annotations {
		if clusterlife.IsUpgradeHold(name, value) {
			names.Insert(name)
		}
		if released, ok := strings.CutPrefix(name, addonsv1.UpgradeReleasedAnnotationPrefix+"/"); ok {
			hold := clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/" + released
			// Another program may use this annotation for its own hold, which must stay.
			if value, held := annotations[hold]; !held || clusterlife.IsUpgradeHold(hold, value) {
				names.Insert(hold)
			}
		}
	}
	return sets.List(names)
}

// mayBeginHold reports whether a hold exists or may be set. Before the control plane is initialized, it may be set even
// without a release, so that the Cluster always has an annotation of HelmOp: see UpgradeReleasedName. Later, a hold
// without a release would protect nothing.
func mayBeginHold(cluster *clusterv1.Cluster, holder upgradeHolder, held bool) bool {
	return held || holder.release != nil || !apiutil.IsInitialized(cluster)
}

// versionToBegin returns the version that the control plane runs. If the control plane does not exist yet, it returns
// the version that the control plane is created with.
func versionToBegin(cluster *clusterv1.Cluster, s clusterlife.UpgradeState) string {
	if s.Running == "" && !s.Held && s.Released == "" && !cluster.Spec.ControlPlaneRef.IsDefined() &&
		!apiutil.IsInitialized(cluster) {
		return cluster.Spec.Topology.Version
	}
	return s.Running
}

// setUpgradeAnnotations writes a decision into annotations.
func setUpgradeAnnotations(annotations map[string]string, name string, decision clusterlife.UpgradeDecision) {
	released := clusterlife.UpgradeReleasedName(name)
	delete(annotations, name)
	delete(annotations, released)
	if decision.Held {
		annotations[name] = decision.Value
	}
	if decision.Released != "" {
		annotations[released] = decision.Released
	}
}

// deferUpgrade sets what the limits for maintenance mean for the hold of an upgrade: while the release must not be
// changed, it cannot become ready.
func deferUpgrade(state *clusterlife.UpgradeState, helmOp *addonsv1.HelmOp, cluster metav1.Object) {
	limits := maintenance.PolicyOf(helmOp.Spec.Maintenance).For(cluster.GetAnnotations()).At(state.Now)
	state.Deferred, state.Opens = limits.Why, limits.Opens
}
