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
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestReleaseWaitsForItsOwner holds that a release whose HelmOp does not exist is not uninstalled at once: a restore
// from a backup may bring HelmOpReleases before HelmOps.
func TestReleaseWaitsForItsOwner(t *testing.T) {
	t.Parallel()
	b := newFateBench(t)
	b.release.Namespace, b.release.Finalizers = "platform", []string{addonsv1.HelmOpReleaseFinalizer}
	b.helmOp = nil
	r, recorder := fateReconciler(b), events.NewFakeRecorder(10)
	r.recorder, r.now, r.budgets = recorder, time.Now, newEventBudgets(time.Now)
	r.watcher, r.written, r.drifts = forgettingWatcher{forgetting: &forgetting{}}, newWrittenGenerations(), newDriftMemories()
	deleted := metav1.NewTime(time.Now().Add(-time.Minute))
	b.release.DeletionTimestamp = &deleted
	scope := &releaseScope{release: b.release, cluster: b.cluster}
	result, err := r.reconcileDelete(t.Context(), scope)
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > ownerRetry || len(b.release.Finalizers) == 0 {
		t.Errorf("%+v, %v, %v", result, err, b.release.Finalizers)
	}
	ready := conditions.Get(b.release, addonsv1.ReadyCondition)
	if ready == nil || ready.Reason != addonsv1.OwnerNotFoundReason || !strings.Contains(ready.Message, deleted.Add(ownerWait).UTC().Format(time.RFC3339)) {
		t.Errorf("Ready is %+v", ready)
	}
	if event := <-recorder.Events; !strings.Contains(event, addonsv1.OwnerNotFoundReason) {
		t.Error(event)
	}
	if isOwnerAwaited(b.release, deleted.Add(ownerWait)) {
		t.Error("it waits for ever")
	}

	// The annotation keeps the release in its cluster.
	b.release.Annotations = map[string]string{addonsv1.OrphanAnnotation: "true"}
	if _, err := r.reconcileDelete(t.Context(), scope); err != nil || len(b.release.Finalizers) > 0 {
		t.Errorf("it stays: %v, %v", err, b.release.Finalizers)
	}
}

// TestReleaseWithoutOwnerEndsAfterTheWait holds that a release whose HelmOp did not come back is uninstalled when the wait is over, and
// not before: only then is its Cluster connected to.
func TestReleaseWithoutOwnerEndsAfterTheWait(t *testing.T) {
	t.Parallel()
	b := newFateBench(t)
	b.helmOp = nil
	b.release.Namespace, b.release.Finalizers = "platform", []string{addonsv1.HelmOpReleaseFinalizer}
	b.release.Spec.ClusterRef.Namespace, b.cluster.Namespace = "", "platform"
	deleted := metav1.NewTime(noon)
	b.release.DeletionTimestamp = &deleted
	now, connections := noon, &forgetting{}
	r := fateReconciler(b)
	r.recorder, r.now, r.budgets = events.NewFakeRecorder(10), func() time.Time { return now }, newEventBudgets(time.Now)
	r.written, r.drifts = newWrittenGenerations(), newDriftMemories()
	r.watcher, r.kubeconfigs = forgettingWatcher{forgetting: connections}, storeOf(t)
	r.clusters = linkMadeMeanwhile{err: errors.New("no connection"), failures: 1}
	for after, want := range map[time.Duration]string{
		ownerWait - time.Second: addonsv1.OwnerNotFoundReason, ownerWait: addonsv1.ClusterUnreachableReason,
	} {
		now, connections.disconnected = noon.Add(after), nil
		_, err := r.reconcileDelete(t.Context(), &releaseScope{release: b.release, cluster: b.cluster})
		if got := conditions.GetReason(b.release, addonsv1.ReadyCondition); err != nil || got != want {
			t.Errorf("after %s: Ready has the reason %q, error %v; want %q", after, got, err, want)
		}
		if tried := len(connections.disconnected) > 0; tried != (after >= ownerWait) {
			t.Errorf("after %s: a connection was tried: %t", after, tried)
		}
		if len(b.release.Finalizers) == 0 {
			t.Errorf("after %s: the HelmOpRelease is gone before the release", after)
		}
	}
}
