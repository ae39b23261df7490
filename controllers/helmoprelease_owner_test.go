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
	r, recorder := b.reconciler(), events.NewFakeRecorder(10)
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
