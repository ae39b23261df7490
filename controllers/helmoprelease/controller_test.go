// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"slices"
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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
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
	r := &Reconciler{images: preflight.New(nil, 1), watcher: forgettingWatcher{forgetting: forgot},
		now: func() time.Time { return controllertest.Noon }}
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
	release.Annotations = map[string]string{addonsv1.InstalledOnceAnnotation: "true",
		addonsv1.PinnedRevisionAnnotation: "1"}
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
		addonsv1.HelmOpReleaseStatus{ReleaseBookkeeping: addonsv1.ReleaseBookkeeping{ClusterUID: "second",
			ClusterRecreatedAt: metav1.NewTime(controllertest.Noon)}}) {
		t.Errorf("status: %+v", status)
	}
	if len(forgot.releases) != 1 {
		t.Errorf("forgotten: %+v", forgot)
	}
}

// TestRecreatedClusterIsNewUntilReady checks that a re-created Cluster does not stay new if it gets no HelmOp revision,
// for example because a user pins it to the revision of the former Cluster.
func TestRecreatedClusterIsNewUntilReady(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status metav1.ConditionStatus
		behind int64
		want   bool
	}{
		"not Ready":                {report.False, 0, true},
		"Ready":                    {report.True, 0, false},
		"Ready with a former spec": {report.True, 1, true},
		"it is not known if Ready": {metav1.ConditionUnknown, 0, true},
	} {
		release := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
		release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1, At: metav1.NewTime(controllertest.Noon.Add(-time.Hour))}
		release.Status.ClusterRecreatedAt = metav1.NewTime(controllertest.Noon)
		release.Generation = 7
		report.SetCondition(release, addonsv1.ReadyCondition, tc.status, addonsv1.ProgressingReason, "")
		release.Generation += tc.behind
		scope := &releaseScope{release: release, before: release.DeepCopy(), cluster: &clusterv1.Cluster{},
			object: &unstructured.Unstructured{}}
		scope.settleStatus()
		if got := apiutil.IsOfFormerCluster(release); got != tc.want {
			t.Errorf("%s: the Cluster is new: %t", name, got)
		}
	}
}

// TestPassesBeforeFirstRead checks two passes that end before they read the state of the release. The pass that resets
// the status writes only the reset, and the pass that adds the finalizer does not write the status.
func TestPassesBeforeFirstRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		formerUID  string
		want       []string
		finalizers int
		reason     string
	}{
		"the Cluster was re-created": {"former", []string{"status"}, 0, addonsv1.ProgressingReason},
		"the release is new":         {"", []string{"object"}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.Cluster.Namespace, b.Cluster.UID = b.Release.Namespace, "new"
			b.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			b.Release.Spec.ClusterRef.Namespace = ""
			b.Release.Status.ClusterUID = tc.formerUID
			r := benchReconciler(b)
			c, ok := r.client.(client.WithWatch)
			if !ok {
				t.Fatal("the client cannot watch")
			}
			w := writesTo(c)
			// The Reconciler has no connections, so a longer pass would fail.
			r.client, r.now, r.watcher = w, time.Now, forgettingWatcher{forgetting: &forgetting{}}
			release, key := &addonsv1.HelmOpRelease{}, client.ObjectKeyFromObject(b.Release)
			if err := w.Get(t.Context(), key, release); err != nil {
				t.Fatal(err)
			}
			result, err := r.reconcile(t.Context(), ctrl.Request{NamespacedName: key}, release)
			if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > requeueAtOnce {
				t.Errorf("got %+v, %v, want a pass at once", result, err)
			}
			if err := w.Get(t.Context(), key, release); err != nil {
				t.Fatal(err)
			}
			if reason := conditions.GetReason(release, addonsv1.ReadyCondition); !slices.Equal(w.sent, tc.want) ||
				len(release.Finalizers) != tc.finalizers || reason != tc.reason {
				t.Errorf("sent %q, finalizers %q, the reason of Ready is %q", w.sent, release.Finalizers, reason)
			}
		})
	}
}
