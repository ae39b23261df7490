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
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// forgetting counts what is forgotten.
type forgetting struct {
	Engine
	clusters, disconnected []string
	releases               []types.NamespacedName
}

func (f *forgetting) Forget(key string) { f.clusters = append(f.clusters, key) }

type forgettingWatcher struct {
	Watcher
	*forgetting
}

func (w forgettingWatcher) Disconnect(cluster string) {
	w.disconnected = append(w.disconnected, cluster)
}
func (w forgettingWatcher) Forget(key types.NamespacedName) { w.releases = append(w.releases, key) }

// recreation is releases of one Cluster, and what a manager forgets of them.
type recreation struct {
	*testing.T
	r      *releaseReconciler
	forgot *forgetting
}

func newRecreation(t *testing.T) *recreation {
	forgot := &forgetting{}
	b := &recreation{T: t, forgot: forgot}
	b.r = &releaseReconciler{
		now: time.Now, engine: forgot, watcher: forgettingWatcher{forgetting: forgot},
		written: newWrittenGenerations(), drifts: newDriftMemories(), sightings: newSightings(1),
		incarnations: &clusterIncarnations{},
	}
	return b
}

// settle is the beginning of a pass over a release while the Cluster has a UID.
func (b *recreation) settle(release *addonsv1.HelmOpRelease, uid types.UID) {
	b.Helper()
	object := &unstructured.Unstructured{}
	object.SetUID(uid)
	b.r.settleCluster(b.Context(), &releaseScope{release: release, object: object, cluster: &clusterv1.Cluster{}})
}

// triedFor is a release at which something was tried.
func triedFor(name string) *addonsv1.HelmOpRelease {
	release := releaseFor("fleet", name, addonsv1.ClusterReference{Name: "one"})
	release.Status = addonsv1.HelmOpReleaseStatus{
		State: "Failed", Failures: 7, LastError: "no", LastAttemptedRevision: "r", LastAttemptedGeneration: 3, LastAttemptedAt: metav1.Now(),
		Release: &addonsv1.ReleaseObservation{Revision: 9}, History: []addonsv1.ReleaseAction{{Action: verbUpgrade}},
		Inventory: &addonsv1.Inventory{Revision: 9}, Health: &addonsv1.HealthStatus{Revision: 9}, Drift: &addonsv1.DriftStatus{Differing: 1},
	}
	setCondition(release, addonsv1.StalledCondition, metav1True, addonsv1.RetriesExhaustedReason, "no")
	return release
}

// TestAClusterCreatedAnewIsAnother holds that nothing of a former Cluster counts against a new one, nor for it.
func TestAClusterCreatedAnewIsAnother(t *testing.T) {
	t.Parallel()
	b := newRecreation(t)
	release, sibling := triedFor("it"), triedFor("sibling")
	b.settle(release, "first")
	b.settle(sibling, "first")
	if release.Status.ClusterUID != "first" || release.Status.Failures != 7 || !conditions.Has(release, addonsv1.StalledCondition) {
		t.Fatalf("the status of a Cluster that is looked at first: %+v", release.Status)
	}
	b.settle(release, "first")
	if len(b.forgot.clusters)+len(b.forgot.disconnected)+len(b.forgot.releases) != 0 {
		t.Fatalf("forgotten though the Cluster is the same: %+v", b.forgot)
	}

	b.settle(release, "second")
	b.settle(sibling, "second")
	for _, reset := range []*addonsv1.HelmOpRelease{release, sibling} {
		status := reset.Status
		ready := conditions.Get(reset, addonsv1.ReadyCondition)
		if len(status.Conditions) != 1 || ready == nil || ready.Status != metav1False || ready.Reason != addonsv1.ProgressingReason {
			t.Errorf("conditions of %s: %+v", reset.Name, status.Conditions)
		}
		status.Conditions = nil
		if !equality.Semantic.DeepEqual(status, addonsv1.HelmOpReleaseStatus{ClusterUID: "second"}) {
			t.Errorf("the status of %s: %+v", reset.Name, status)
		}
	}
	// The connection is that of all releases: it goes once, and what the first made with the new Cluster stays.
	if len(b.forgot.clusters) != 1 || len(b.forgot.disconnected) != 1 || len(b.forgot.releases) != 2 {
		t.Errorf("forgotten: %+v", b.forgot)
	}
}

// TestAClusterCreatedAnewUnseen holds the same for a manager that saw the former Cluster never, or go.
func TestAClusterCreatedAnewUnseen(t *testing.T) {
	t.Parallel()
	b := newRecreation(t)
	release := triedFor("it")
	release.Status.ClusterUID = "first"
	b.settle(release, "second")
	if release.Status.Failures != 0 || release.Status.ClusterUID != "second" {
		t.Errorf("the status: %+v", release.Status)
	}
	if len(b.forgot.clusters) != 0 {
		t.Errorf("there was no connection to forget: %+v", b.forgot)
	}
	b.r.incarnations.forget(clusterKey(release))
	b.settle(release, "third")
	if len(b.forgot.clusters) != 0 || release.Status.ClusterUID != "third" {
		t.Errorf("forgotten again: %+v, the status %+v", b.forgot, release.Status)
	}
}

// TestAClusterThatIsGoneIsForgotten holds that nothing of a Cluster is kept that went after the last of its releases.
func TestAClusterThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	var engine forgottenByEngine
	var watcher forgottenByWatcher
	common := &sharedParts{sightings: newSightings(1), incarnations: &clusterIncarnations{}}
	key := client.ObjectKey{Namespace: "ns", Name: "c"}
	common.incarnations.isAnother(key, "first")
	_, _ = common.sightings.begin(key.String(), ctrl.Request{})
	common.sightings.hangs(key.String(), 0)
	if grace, _ := common.sightings.grace(key.String()); grace != 0 {
		t.Fatalf("a worker waits %s for a Cluster that hangs", grace)
	}
	common.forgetting(&engine, &watcher)(key)
	grace, _ := common.sightings.grace(key.String())
	if len(engine.clusters) != 1 || len(watcher.clusters) != 1 || grace == 0 || common.incarnations.isAnother(key, "second") {
		t.Errorf("forgotten by the engine %v, by the watcher %v; a worker waits %s", engine.clusters, watcher.clusters, grace)
	}
}

// forgottenByEngine and forgottenByWatcher note of which Clusters they are to forget all.
type forgottenByEngine struct {
	Engine
	clusters []string
}

func (f *forgottenByEngine) Forget(cluster string) { f.clusters = append(f.clusters, cluster) }

type forgottenByWatcher struct {
	Watcher
	clusters []string
}

func (f *forgottenByWatcher) Disconnect(cluster string) { f.clusters = append(f.clusters, cluster) }

// TestAClusterOfAnotherShardIsNotKept holds that nothing is remembered of a Cluster whose end no event tells here.
func TestAClusterOfAnotherShardIsNotKept(t *testing.T) {
	t.Parallel()
	b := newRecreation(t)
	object := &unstructured.Unstructured{}
	object.SetUID("u")
	b.r.settleCluster(t.Context(), &releaseScope{release: triedFor("a"), object: object, cluster: &clusterv1.Cluster{}, elsewhere: "of shard b"})
	if b.r.incarnations.isAnother(clusterKey(triedFor("a")), "v") {
		t.Error("the Cluster is remembered")
	}
}

// TestToldGenerationsEnd holds that what was told to a child that the cache never shows again is forgotten.
func TestToldGenerationsEnd(t *testing.T) {
	t.Parallel()
	told := newToldGenerations()
	for i, name := range []types.UID{"a", "b", "c"} {
		child := &addonsv1.HelmOpRelease{}
		child.UID, child.Generation = name, 2
		told.note(child, noon.Add(time.Duration(i)*2*staleLimit))
	}
	if _, ok := told.byUID["c"]; !ok || len(told.byUID) != 1 {
		t.Errorf("remembered are %v", told.byUID)
	}
}
