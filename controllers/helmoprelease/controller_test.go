// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// triedFor returns a release with failed attempts in its status.
func triedFor(name string) *addonsv1.HelmOpRelease {
	release := controllertest.ReleaseFor("fleet", name, addonsv1.ClusterReference{Name: "one"})
	release.Status = addonsv1.HelmOpReleaseStatus{
		State: "Failed", Failures: 7, LastError: "no", LastAttemptedAt: metav1.Now(),
		Release: &addonsv1.ReleaseObservation{Revision: 9}, History: []addonsv1.ReleaseAction{{Action: attempts.VerbUpgrade}},
		Inventory: &addonsv1.Inventory{Revision: 9}, Drift: &addonsv1.DriftStatus{Differing: 1},
		ReleaseBookkeeping: addonsv1.ReleaseBookkeeping{
			LastAttemptedDigest: "r", LastAttemptedGeneration: 3, Health: &addonsv1.HealthStatus{Revision: 9},
		},
	}
	report.SetCondition(release, addonsv1.StalledCondition, report.True, addonsv1.RetriesExhaustedReason, "no")
	return release
}

// TestRecreatedClusterResetsStatus checks that the status for a former Cluster does not count for the re-created one.
func TestRecreatedClusterResetsStatus(t *testing.T) {
	t.Parallel()
	forgot := &forgetting{}
	r := &Reconciler{images: preflight.New(nil, 1), watcher: forgettingWatcher{forgetting: forgot}}
	release := triedFor("it")
	settle := func(uid types.UID, isReset bool) {
		object := &unstructured.Unstructured{}
		object.SetUID(uid)
		scope := &releaseScope{release: release, object: object, cluster: &clusterv1.Cluster{}}
		if got := r.resetIfRecreated(t.Context(), scope); got != isReset {
			t.Errorf("Cluster %s: reset %t", uid, got)
		}
	}
	for range 2 {
		settle("first", false)
		if release.Status.ClusterUID != "first" || release.Status.Failures != 7 ||
			!conditions.Has(release, addonsv1.StalledCondition) {
			t.Fatalf("the status with the same Cluster: %+v", release.Status)
		}
	}
	release.Annotations = map[string]string{addonsv1.InstalledOnceAnnotation: "true"}
	settle("second", true)
	if len(release.Annotations) != 0 {
		t.Errorf("annotations: %v", release.Annotations)
	}
	status, ready := release.Status, conditions.Get(release, addonsv1.ReadyCondition)
	if len(status.Conditions) != 1 || ready == nil || ready.Status != report.False ||
		ready.Reason != addonsv1.ProgressingReason {
		t.Errorf("conditions: %+v", status.Conditions)
	}
	status.Conditions = nil
	if !equality.Semantic.DeepEqual(status,
		addonsv1.HelmOpReleaseStatus{ReleaseBookkeeping: addonsv1.ReleaseBookkeeping{ClusterUID: "second"}}) {
		t.Errorf("status: %+v", status)
	}
	if len(forgot.releases) != 1 {
		t.Errorf("forgotten: %+v", forgot)
	}
}
