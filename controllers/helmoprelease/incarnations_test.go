// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// recreation is releases of one Cluster, and what a manager forgets of them.
type recreation struct {
	*testing.T
	r      *Reconciler
	forgot *forgetting
}

func newRecreation(t *testing.T) *recreation {
	forgot := &forgetting{}
	b := &recreation{T: t, forgot: forgot}
	b.r = &Reconciler{
		Now: time.Now, Engine: forgot, Watcher: forgettingWatcher{forgetting: forgot},
		Written: NewWrittenGenerations(), Drifts: driftmemory.New(), Reads: recordreads.New(1),
		Incarnations: &clusterview.Incarnations{},
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
	release := controllertest.ReleaseFor("fleet", name, addonsv1.ClusterReference{Name: "one"})
	release.Status = addonsv1.HelmOpReleaseStatus{
		State: "Failed", Failures: 7, LastError: "no", LastAttemptedRevision: "r", LastAttemptedGeneration: 3, LastAttemptedAt: metav1.Now(),
		Release: &addonsv1.ReleaseObservation{Revision: 9}, History: []addonsv1.ReleaseAction{{Action: verbUpgrade}},
		Inventory: &addonsv1.Inventory{Revision: 9}, Health: &addonsv1.HealthStatus{Revision: 9}, Drift: &addonsv1.DriftStatus{Differing: 1},
	}
	report.SetCondition(release, addonsv1.StalledCondition, report.True, addonsv1.RetriesExhaustedReason, "no")
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
		if len(status.Conditions) != 1 || ready == nil || ready.Status != report.False || ready.Reason != addonsv1.ProgressingReason {
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
	b.r.Incarnations.Forget(apiutil.ClusterKey(release))
	b.settle(release, "third")
	if len(b.forgot.clusters) != 0 || release.Status.ClusterUID != "third" {
		t.Errorf("forgotten again: %+v, the status %+v", b.forgot, release.Status)
	}
}

// TestAClusterOfAnotherShardIsNotKept holds that nothing is remembered of a Cluster whose end no event tells here.
func TestAClusterOfAnotherShardIsNotKept(t *testing.T) {
	t.Parallel()
	b := newRecreation(t)
	object := &unstructured.Unstructured{}
	object.SetUID("u")
	b.r.settleCluster(t.Context(), &releaseScope{release: triedFor("a"), object: object, cluster: &clusterv1.Cluster{}, elsewhere: "of shard b"})
	if b.r.Incarnations.IsAnother(apiutil.ClusterKey(triedFor("a")), "v") {
		t.Error("the Cluster is remembered")
	}
}
