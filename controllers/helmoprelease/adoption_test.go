// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// claimOf returns the HelmOpRelease of a HelmOp in Cluster "one". The HelmOp takes ownership of release "cni".
func claimOf(helmOp string) *addonsv1.HelmOpRelease {
	claim := controllertest.ReleaseFor("default", helmOp+"-one", addonsv1.ClusterReference{Name: "one"})
	claim.UID = types.UID(helmOp)
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: addonsv1.GroupVersion.String(),
		Kind: apiutil.HelmOpKind, Name: helmOp, UID: types.UID(helmOp), Controller: new(true)}}
	claim.Spec.Release = addonsv1.ReleaseIdentity{Name: "cni", Namespace: "kube-system"}
	claim.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: new(true)}
	return claim
}

// ownedBy returns the records of a release that a HelmOpRelease has installed.
func ownedBy(release *addonsv1.HelmOpRelease) model.Observation {
	desired, _ := releasespec.DesiredOf(release)
	return model.Observation{Records: []model.Record{{Revision: 1, LabelledRevision: 1, Status: model.StatusDeployed,
		Owner: desired.Owner, UID: desired.UID}}}
}

// TestUninstallationWaitsForAdoption checks that an uninstallation waits for a HelmOp that is about to adopt the
// release, for a limited time, and for no other HelmOp.
func TestUninstallationWaitsForAdoption(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		adopted bool
		change  func(next *addonsv1.HelmOpRelease, scope *releaseScope)
		want    model.Action
	}{
		"may adopt":   {want: model.ActionWait},
		"has adopted": {adopted: true, want: model.ActionRefuse},
		"does not take it": {change: func(next *addonsv1.HelmOpRelease, _ *releaseScope) {
			next.Spec.Install = nil
		}, want: model.ActionUninstall},
		"has another release": {change: func(next *addonsv1.HelmOpRelease, _ *releaseScope) {
			next.Spec.Release.Name = "csi"
		}, want: model.ActionUninstall},
		"is deleted": {change: func(next *addonsv1.HelmOpRelease, _ *releaseScope) {
			next.DeletionTimestamp = &metav1.Time{Time: controllertest.Noon}
			next.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
		}, want: model.ActionUninstall},
		"lost it before": {change: func(next *addonsv1.HelmOpRelease, _ *releaseScope) {
			next.Annotations = map[string]string{addonsv1.LostToAnnotation: "default.former"}
		}, want: model.ActionUninstall},
		"had it before": {change: func(next *addonsv1.HelmOpRelease, _ *releaseScope) {
			next.Status.Release = &addonsv1.ReleaseObservation{Revision: 1}
		}, want: model.ActionUninstall},
		"may not access the Cluster": {change: func(next *addonsv1.HelmOpRelease, _ *releaseScope) {
			releasestatus.NotReleased(next, addonsv1.AdoptionPendingReason, adoptionPending)
			report.SetNotReady(next, addonsv1.ClusterAccessDeniedReason, "No")
		}, want: model.ActionUninstall},
		"the Cluster is deleted": {change: func(_ *addonsv1.HelmOpRelease, scope *releaseScope) {
			scope.cluster.DeletionTimestamp = &metav1.Time{Time: controllertest.Noon}
		}, want: model.ActionUninstall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			former, next := claimOf("former"), claimOf("next")
			report.SetNotReady(next, addonsv1.UpdatingReason, "The chart is installed")
			scope := &releaseScope{release: former, cluster: &clusterv1.Cluster{}}
			if tc.change != nil {
				tc.change(next, scope)
			}
			now := controllertest.Noon
			r := &Reconciler{client: controllertest.StoreOf(t, former, next), now: func() time.Time { return now }}
			owner := former
			if tc.adopted {
				owner = next
			}
			desired, _ := releasespec.DesiredOf(former)
			observation := ownedBy(owner)
			decision := r.decideUninstall(t.Context(), scope, observation, desired)
			if decision.Action != tc.want {
				t.Fatalf("got %+v", decision)
			}
			if tc.want != model.ActionWait {
				return
			}
			end := now.Add(adoptionWait)
			if decision.RequeueAfter != adoptionWait || !decision.NextTryAt.Equal(end) ||
				!strings.Contains(decision.Message, `HelmOp "default.next"`) ||
				!strings.Contains(decision.Message, end.Format(time.RFC3339)) {
				t.Errorf("the wait is %+v", decision)
			}
			now = end
			if decision = r.decideUninstall(t.Context(), scope, observation, desired); decision.Action != model.ActionUninstall {
				t.Errorf("after %s: %+v", adoptionWait, decision)
			}
		})
	}
}

// TestUninstallationWaitsForTurnOfAdopter checks that the short wait for an adoption begins when the adopter no longer
// waits for a slot or its rollout, and that this wait has a limit, too.
func TestUninstallationWaitsForTurnOfAdopter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(next *addonsv1.HelmOpRelease)
		waits  bool
	}{
		"no pass yet": {waits: true, change: func(*addonsv1.HelmOpRelease) {}},
		"no slot": {waits: true, change: func(next *addonsv1.HelmOpRelease) {
			releasestatus.WaitingForSlot(next, decide.Decision{})
		}},
		"its wave has not begun": {waits: true, change: func(next *addonsv1.HelmOpRelease) {
			releasestatus.NotReleased(next, addonsv1.AdoptionPendingReason, adoptionPending)
		}},
		"it is paused": {change: func(next *addonsv1.HelmOpRelease) { report.SetPaused(next, true, "") }},
		"it failed, and has no slot": {change: func(next *addonsv1.HelmOpRelease) {
			releasestatus.NotReleased(next, addonsv1.UpgradeFailedReason, "No")
			releasestatus.WaitingForSlot(next, decide.Decision{Failures: 1})
		}},
		"a dependency": {change: func(next *addonsv1.HelmOpRelease) {
			report.SetNotReady(next, addonsv1.WaitingForDependenciesReason, "HelmOp cni is not Ready")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			former, next := claimOf("former"), claimOf("next")
			tc.change(next)
			now := controllertest.Noon
			r := &Reconciler{client: controllertest.StoreOf(t, former, next), now: func() time.Time { return now }}
			scope := &releaseScope{release: former, cluster: &clusterv1.Cluster{}}
			desired, _ := releasespec.DesiredOf(former)
			expect := func(after time.Duration, want model.Action) {
				t.Helper()
				now = controllertest.Noon.Add(after)
				decision := r.decideUninstall(t.Context(), scope, ownedBy(former), desired)
				if decision.Action != want || decision.RequeueAfter > adoptionWait {
					t.Errorf("after %s: %+v", after, decision)
				}
			}
			expect(0, model.ActionWait)
			if !tc.waits {
				expect(adoptionWait, model.ActionUninstall)
				return
			}
			expect(adoptionWait+time.Second, model.ActionWait)
			report.SetNotReady(next, addonsv1.UpdatingReason, "The release is adopted")
			r.client = controllertest.StoreOf(t, former, next)
			expect(time.Minute, model.ActionWait)
			expect(time.Minute+adoptionWait-time.Second, model.ActionWait)
			expect(time.Minute+adoptionWait, model.ActionUninstall)
			next.Status.Conditions = nil
			tc.change(next)
			r.client = controllertest.StoreOf(t, former, next)
			expect(adoptionLimit-time.Second, model.ActionWait)
			expect(adoptionLimit, model.ActionUninstall)
		})
	}
}

// TestEarlyEndEndsWaitForAdoption checks that a wait for an adoption begins again after a pass that does not reach the
// uninstallation: what blocks it may block the adopter, too. A failed uninstallation continues the wait.
func TestEarlyEndEndsWaitForAdoption(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		isPaused  bool
		connected error
		want      time.Time
	}{
		"paused":      {isPaused: true},
		"unreachable": {connected: errors.New("no connection")},
		"failed":      {want: controllertest.Noon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			owner := metav1.GetControllerOf(b.Release)
			b.HelmOp = nil
			b.Cluster.Namespace, b.Cluster.Spec.Paused = b.Release.Namespace, &tc.isPaused
			b.Release.Spec.ClusterRef.Namespace = ""
			b.Release.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
			b.Release.DeletionTimestamp = new(metav1.NewTime(controllertest.Noon))
			b.Release.Annotations = map[string]string{addonsv1.DeletionAdmittedAnnotation: string(owner.UID)}
			r := benchReconciler(b)
			r.now, r.engine = func() time.Time { return controllertest.Noon }, &seenVersions{}
			r.watcher, r.kubeconfigs = forgettingWatcher{forgetting: &forgetting{}}, controllertest.StoreOf(t)
			r.clusters = linkMadeMeanwhile{err: tc.connected, failures: 1}
			release, key := &addonsv1.HelmOpRelease{}, client.ObjectKeyFromObject(b.Release)
			if err := r.client.Get(t.Context(), key, release); err != nil {
				t.Fatal(err)
			}
			r.memoryOf(release).Adoption.Since = controllertest.Noon
			// The management cluster has no Namespace kube-system, so the uninstallation fails.
			_, err := r.reconcile(t.Context(), ctrl.Request{NamespacedName: key}, release)
			if got := r.memoryOf(release).Adoption.Since; !got.Equal(tc.want) || (err != nil) == tc.want.IsZero() {
				t.Errorf("the wait began at %s, want %s; error %v", got, tc.want, err)
			}
		})
	}
}
