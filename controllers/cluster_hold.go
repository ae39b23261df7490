/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// beginHold pauses a Cluster under deletion. spec.paused stops everybody who serves the Cluster; the paused annotation would stop
// only the controller of the Cluster itself, and Cluster API heard of the deletion when we did: the control plane may be
// marked for deletion by now.
func (r *clusterReconciler) beginHold(ctx context.Context, scope *lifeScope, releases int) error {
	began, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := typedCluster(object)
		if err != nil {
			return false, err
		}
		if cluster.DeletionTimestamp.IsZero() || isClusterPaused(cluster) || holdOf(cluster) != (deletionHold{}) {
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

// endHold lets the deletion of a Cluster go on. Late are the releases that were not uninstalled in time.
func (r *clusterReconciler) endHold(ctx context.Context, scope *lifeScope, late []string) error {
	ended, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := typedCluster(object)
		if err != nil || !holdOf(cluster).isOn() {
			return false, err
		}
		setAnnotation(object, addonsv1.DeletionHoldAnnotation, deletionHoldOver)
		unstructured.RemoveNestedField(object.Object, "spec", "paused")
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("letting the deletion of the Cluster go on: %w", err)
	}
	if !ended {
		return nil
	}
	message := "The releases that had to be are uninstalled: the deletion of the Cluster goes on"
	if len(late) > 0 {
		message = fmt.Sprintf("%d releases were not uninstalled in time, and the deletion of the Cluster goes on: %s",
			len(late), strings.Join(late[:min(len(late), maxNamedReleases)], ", "))
	}
	r.eventAt(scope, nil, eventType(len(late) > 0), addonsv1.ClusterDeletionReleasedEvent, "HoldDeletion", message)
	return nil
}

// changeHold changes a Cluster as it is now, and tells whether it did; the cached one is tried first. Nobody else's write is
// lost, and no pause of somebody else taken for ours.
func (r *clusterReconciler) changeHold(ctx context.Context, scope *lifeScope, change func(*unstructured.Unstructured) (bool, error)) (bool, error) {
	object, first, changed := scope.object, true, false
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !first {
			changed, object = false, newCluster()
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
		return r.client.Patch(ctx, after, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
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

// upgradeHolders are the releases that hold upgrades of the Cluster, by the names of their annotations.
func upgradeHolders(scope *lifeScope) map[string]*addonsv1.HelmOpRelease {
	holders := map[string]*addonsv1.HelmOpRelease{}
	for i := range scope.releases {
		release := &scope.releases[i]
		helmOp := client.ObjectKey{Namespace: release.Namespace, Name: helmOpOf(release)}
		if release.Spec.BeforeClusterUpgrade != nil && release.DeletionTimestamp.IsZero() && helmOp.Name != "" {
			holders[upgradeHoldName(helmOp)] = release
		}
	}
	return holders
}

// upgradeHoldNames are the names of the annotations that are wanted or there, in order.
func upgradeHoldNames(holders map[string]*addonsv1.HelmOpRelease, annotations map[string]string) []string {
	var names []string
	for name := range holders {
		names = append(names, name)
	}
	for name := range annotations {
		if strings.HasPrefix(name, upgradeHoldPrefix) && holders[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
