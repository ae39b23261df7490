// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// beginHold begins to hold the deletion of a Cluster. It pauses the Cluster, unless Cluster API waits for the Runtime
// Extension. It sets spec.paused, which stops all controllers of the Cluster. The paused annotation would stop only the
// controller of the Cluster object. Cluster API observes the deletion at the same time. So the control plane may be
// under deletion already.
func (r *Reconciler) beginHold(ctx context.Context, scope *lifeScope, releases int) error {
	pauses := !r.waitsForExtension(scope.cluster)
	began, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := apiutil.TypedCluster(object)
		if err != nil {
			return false, err
		}
		if cluster.DeletionTimestamp.IsZero() || apiutil.IsClusterPaused(cluster) || !apiutil.HoldOf(cluster).MayBegin() {
			// Another program has paused the Cluster: the hold must not begin before this pause ends.
			return false, nil
		}
		setAnnotation(object, addonsv1.DeletionHoldAnnotation, apiutil.DeletionHoldSince(r.now(), pauses))
		if !pauses {
			return true, nil
		}
		return true, unstructured.SetNestedField(object.Object, true, "spec", "paused")
	})
	if err != nil {
		return fmt.Errorf("holding the deletion of the Cluster: %w", err)
	}
	if began {
		held, unpause := "The deletion of the Cluster waits", ""
		if pauses {
			held, unpause = "The Cluster is paused", " and remove spec.paused"
		}
		r.eventAt(scope, nil, eventType(false), addonsv1.ClusterDeletionHeldEvent, "HoldDeletion",
			fmt.Sprintf("%s until %s uninstalled. To stop the deletion, set the annotation %s. To end the hold at once, set "+
				"the annotation %s=%s%s", held,
				plural.Count(releases, "release with beforeClusterDelete is", "releases with beforeClusterDelete are"),
				clusterv1.PausedAnnotation, addonsv1.DeletionHoldAnnotation, apiutil.DeletionHoldOver, unpause))
	}
	return nil
}

// endHold ends the hold of the deletion of a Cluster. late are the names of the releases that still exist. The Cluster
// stays paused if another program has applied spec.paused meanwhile.
func (r *Reconciler) endHold(ctx context.Context, scope *lifeScope, late []string) error {
	if !apiutil.HoldOf(scope.cluster).IsOn() {
		return nil
	}
	// The cache has no managed fields.
	live := apiutil.NewCluster()
	err := r.live.Get(ctx, client.ObjectKeyFromObject(scope.object), live)
	if err := client.IgnoreNotFound(err); err != nil {
		return err
	}
	applier := pauseApplier(live)
	ended, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := apiutil.TypedCluster(object)
		if err != nil || !apiutil.HoldOf(cluster).IsOn() {
			return false, err
		}
		// After a conflict, the object is from the API server, too.
		applier = cmp.Or(pauseApplier(object), applier)
		setAnnotation(object, addonsv1.DeletionHoldAnnotation, apiutil.DeletionHoldOver)
		if applier == "" {
			unstructured.RemoveNestedField(object.Object, "spec", "paused")
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("ending the hold of the deletion of the Cluster: %w", err)
	}
	if !ended {
		return nil
	}
	message := "No release holds the deletion of the Cluster any longer: the deletion continues"
	if len(late) > 0 {
		slices.Sort(late)
		message = fmt.Sprintf("The deletion of the Cluster continues, although %s not uninstalled in time: %s",
			plural.Count(len(late), "release was", "releases were"),
			strings.Join(late[:min(len(late), maxNamedReleases)], ", "))
		if r.rejection(scope) != "" {
			message += fmt.Sprintf(" (%s)", clusterlink.CauseCredentials)
		}
	}
	if applier != "" {
		message += fmt.Sprintf(". But the Cluster stays paused, because the field manager %q has applied spec.paused: set "+
			"spec.paused to false", applier)
	}
	r.eventAt(scope, nil, eventType(len(late) > 0), addonsv1.ClusterDeletionReleasedEvent, "HoldDeletion", message)
	return nil
}

// pauseApplier returns the field manager that has applied spec.paused of a Cluster with the value true; empty if there
// is none. HelmOp never applies this field, and an applied value that HelmOp overwrites has no manager any more. So the
// manager applied the field after the hold began.
func pauseApplier(cluster *unstructured.Unstructured) string {
	if isPaused, _, _ := unstructured.NestedBool(cluster.Object, "spec", "paused"); !isPaused {
		return ""
	}
	for _, entry := range cluster.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		if _, owns, _ := unstructured.NestedFieldNoCopy(fields, "f:spec", "f:paused"); owns {
			return entry.Manager
		}
	}
	return ""
}

// rejection returns the cause and what a user can do if the API server of a Cluster rejects the credentials because
// HelmOp pauses the Cluster. It returns an empty text in all other cases.
func (r *Reconciler) rejection(scope *lifeScope) string {
	hint, state := clusterlife.RenewalHint(scope.cluster), r.link(client.ObjectKeyFromObject(scope.object))
	if hint == "" || !state.IsUnreachable() || state.Cause != clusterlink.CauseCredentials {
		return ""
	}
	return string(state.Cause) + hint
}

// warnOfHold records an Event if the releases may not be uninstalled before the deletion of a Cluster, because HelmOp
// pauses the Cluster, or because another program has ended this pause. The pause does not begin again: the other
// program may be a user who does not want it. HelmOp continues to uninstall the releases until the hold ends, because
// Cluster API needs some minutes to delete the control plane.
func (r *Reconciler) warnOfHold(scope *lifeScope, hold apiutil.DeletionHold) {
	message := ""
	if rejected := r.rejection(scope); rejected != "" {
		message = "HelmOp cannot uninstall the releases before the deletion of the Cluster: " + rejected
	} else if !hold.Unpaused && !ptr.Deref(scope.cluster.Spec.Paused, false) {
		message = "Another program ended the pause of the Cluster: Cluster API deletes the Cluster while HelmOp uninstalls " +
			"the releases. Let no other program write spec.paused of the Cluster"
	}
	if message != "" {
		r.eventAt(scope, nil, eventType(true), addonsv1.ClusterDeletionHeldEvent, "HoldDeletion", message)
	}
}

// changeHold changes the current Cluster, and reports whether it changed anything. It first uses the cached Cluster,
// and then reads the Cluster from the API server. So it does not overwrite a change of another program, and does not
// treat another program's pause as a hold.
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

// upgradeHolders returns the HelmOps that hold upgrades of the Cluster, by the names of their annotations.
func upgradeHolders(scope *lifeScope) map[string]clusterlife.UpgradeHolder {
	return clusterlife.UpgradeHolders(scope.cluster, scope.releases, scope.helmOps)
}

// upgradeHoldNames returns the sorted names of the annotations of upgrade holders, and of existing annotations of this
// controller.
func upgradeHoldNames(holders map[string]clusterlife.UpgradeHolder, annotations map[string]string) []string {
	names := sets.KeySet(holders)
	for name, value := range annotations {
		if clusterlife.IsUpgradeHold(name, value) {
			names.Insert(name)
		}
		if released, ok := strings.CutPrefix(name, addonsv1.UpgradeReleasedAnnotationPrefix+"/"); ok {
			hold := clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/" + released
			// Another program may use this annotation for its own hold. That hold must stay.
			if value, held := annotations[hold]; !held || clusterlife.IsUpgradeHold(hold, value) {
				names.Insert(hold)
			}
		}
	}
	return sets.List(names)
}

// mayBeginHold reports whether a hold exists or may be set. Before the control plane is initialized, the hold may be
// set even without a release, so that the Cluster always has an annotation of HelmOp: see UpgradeReleasedName. Later, a
// hold without a release would protect nothing.
func mayBeginHold(cluster *clusterv1.Cluster, holder clusterlife.UpgradeHolder, held bool) bool {
	return held || holder.Release != nil || !apiutil.IsInitialized(cluster)
}

// versionToBegin returns the version that the control plane runs. If the control plane does not exist yet, it returns
// the version with which the control plane will be created.
func versionToBegin(cluster *clusterv1.Cluster, s clusterlife.UpgradeState) string {
	if s.Running == "" && !s.Held && s.Released == "" && !cluster.Spec.ControlPlaneRef.IsDefined() &&
		!apiutil.IsInitialized(cluster) {
		return cluster.Spec.Topology.Version
	}
	return s.Running
}

// setUpgradeAnnotations writes decisions into annotations, and reports whether it changed them.
func setUpgradeAnnotations(annotations map[string]string, name string, decision clusterlife.UpgradeDecision,
	steps clusterlife.StepsDecision,
) bool {
	before := maps.Clone(annotations)
	for key, value := range map[string]string{
		name: decision.Value, clusterlife.UpgradeReleasedName(name): decision.Released,
		clusterlife.StepHoldName(name): steps.Step, clusterlife.WorkersHoldName(name): steps.Workers,
	} {
		delete(annotations, key)
		if value != "" {
			annotations[key] = value
		}
	}
	return !maps.Equal(before, annotations)
}
