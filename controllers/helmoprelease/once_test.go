// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// onceOf returns a release that is installed only once. done is true if it was installed.
func onceOf(done bool) *addonsv1.HelmOpRelease {
	release := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
	release.Generation = 3
	release.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyInstallOnce
	if done {
		release.Annotations = map[string]string{addonsv1.InstalledOnceAnnotation: "true"}
	}
	return release
}

func wantInstalledOnce(t *testing.T, release *addonsv1.HelmOpRelease) {
	t.Helper()
	for _, name := range []string{addonsv1.ReadyCondition, addonsv1.ReleasedCondition} {
		got := conditions.Get(release, name)
		if got == nil || got.Status != report.True || got.Reason != addonsv1.InstalledOnceReason ||
			got.ObservedGeneration != release.Generation {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if release.Annotations[addonsv1.InstalledOnceAnnotation] != "true" || release.Status.Inventory != nil ||
		conditions.Has(release, addonsv1.StalledCondition) || release.Status.Failures != 0 {
		t.Errorf("%v, %+v", release.Annotations, release.Status)
	}
}

// TestInstalledOnceIsLeftAlone makes passes over a release that was installed once. They must use neither a connection
// nor the engine, even after a change of the spec or the loss of the status.
func TestInstalledOnceIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*addonsv1.HelmOpRelease){
		"as before":     func(*addonsv1.HelmOpRelease) {},
		"status lost":   func(r *addonsv1.HelmOpRelease) { r.Status = addonsv1.HelmOpReleaseStatus{} },
		"other values":  func(r *addonsv1.HelmOpRelease) { r.Spec.ValuesDigest, r.Generation = "x", 4 },
		"it had failed": func(r *addonsv1.HelmOpRelease) { r.Status = triedFor("it").Status },
		"taken over": func(r *addonsv1.HelmOpRelease) {
			r.Annotations[addonsv1.ManagementClusterAnnotation] = "system"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.Cluster)
			if err != nil {
				t.Fatal(err)
			}
			release := onceOf(true)
			release.OwnerReferences = b.Release.OwnerReferences
			change(release)
			r := managerIn(t, "system", nil)
			r.watcher = forgettingWatcher{forgetting: &forgetting{}}
			result, err := r.reconcileNormal(t.Context(), &releaseScope{release: release, helmOp: b.HelmOp,
				cluster: b.Cluster, object: &unstructured.Unstructured{Object: object}})
			if err != nil || !result.IsZero() {
				t.Errorf("%v, %v", result, err)
			}
			wantInstalledOnce(t, release)
		})
	}
}

// TestInstalledOnceIsTakenOver moves a release that was installed once to another management cluster. The manager there
// must take over the records, and use the engine for nothing else. Otherwise the deletion of the HelmOp in the old
// management cluster would uninstall the release.
func TestInstalledOnceIsTakenOver(t *testing.T) {
	t.Parallel()
	b := newMovedBench(t)
	b.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	b.Release.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyInstallOnce
	b.Release.Annotations[addonsv1.InstalledOnceAnnotation] = "true"
	r, engine := disconnectedReconciler(b), newMovedRecords(b.Release, "former")
	r.engine, r.clusters = engine, linkMadeMeanwhile{}
	for _, tc := range []struct {
		age        time.Duration
		annotation string
	}{{0, "system,former"}, {takeoverPeriod, "system"}} {
		memory := r.memoryOf(b.Release)
		memory.TakenOver = memory.TakenOver.Add(-tc.age)
		gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
			_, err := r.reconcileNormal(t.Context(), &releaseScope{release: b.Release, before: b.Release.DeepCopy(),
				cluster: b.Cluster, helmOp: b.HelmOp})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(engine.managedBy()).To(gomega.Equal([]string{"system"}))
			g.Expect(b.Release.Annotations).To(gomega.HaveKeyWithValue(addonsv1.ManagementClusterAnnotation, tc.annotation))
		}).Should(gomega.Succeed())
		wantInstalledOnce(t, b.Release)
	}
}

// TestInstallOnceAfterMove moves a release in the management cluster that was installed once. The other management
// cluster does not have the release, so the pass must reach the installation there. If it has the release, or if the
// release is in a workload cluster, the release stays as it is.
func TestInstallOnceAfterMove(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind      addonsv1.ClusterKind
		installed bool
		owner     string
		want      bool
	}{
		"not installed":                        {kind: addonsv1.ClusterKindManagementCluster, want: true},
		"of another owner":                     {addonsv1.ClusterKindManagementCluster, true, "other", true},
		"moved back":                           {addonsv1.ClusterKindManagementCluster, true, "", false},
		"in a workload cluster, not installed": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := onceOf(true)
			release.Spec.ClusterRef.Kind = tc.kind
			release.Annotations[addonsv1.ManagementClusterAnnotation] = "former"
			engine := newMovedRecords(release, "system")
			if tc.owner != "" {
				engine.records[0].Owner, engine.records[1].Owner = tc.owner, tc.owner
			}
			if !tc.installed {
				engine.records = nil
			}
			r := managerIn(t, "system", engine)
			r.watcher = forgettingWatcher{forgetting: &forgetting{}}
			isReached := false
			for range 2 {
				p := &releasePass{releaseScope: &releaseScope{release: release}}
				if _, err := run(t.Context(), p, r.checkInstalledOnce, r.readSpec,
					func(ctx context.Context, p *releasePass) (_ *ctrl.Result, err error) {
						p.observation, err = engine.Observe(ctx, p.target, "", "")
						return nil, err
					}, r.takeOverAfterMove, r.installAfterMove, r.leaveInstalledOnce,
					func(context.Context, *releasePass) (*ctrl.Result, error) {
						isReached = true
						return nil, nil
					}); err != nil {
					t.Fatal(err)
				}
			}
			if isReached != tc.want || releasespec.IsDone(&release.Spec, release) == tc.want {
				t.Errorf("reached the installation: %t, annotations %v", isReached, release.Annotations)
			}
		})
	}
}

// TestFinishOnce checks when a release counts as installed once: it is Ready with its current spec, or Helm's records
// show an earlier installation.
func TestFinishOnce(t *testing.T) {
	t.Parallel()
	ready := func(release *addonsv1.HelmOpRelease) {
		report.SetCondition(release, addonsv1.ReadyCondition, report.True, addonsv1.ReadyReason, "")
	}
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOpRelease)
		reason string
		done   bool
	}{
		"ready":         {ready, decide.ReasonBackoff, true},
		"not ready":     {func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, addonsv1.ProgressingReason, "") }, decide.ReasonBackoff, false},
		"not reported":  {func(*addonsv1.HelmOpRelease) {}, decide.ReasonBackoff, false},
		"spec changed":  {func(r *addonsv1.HelmOpRelease) { ready(r); r.Generation++ }, decide.ReasonBackoff, false},
		"continuous":    {func(r *addonsv1.HelmOpRelease) { ready(r); r.Spec.ReconcileStrategy = "" }, decide.ReasonBackoff, false},
		"was installed": {func(*addonsv1.HelmOpRelease) {}, decide.ReasonInstalledOnce, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := onceOf(false)
			tc.change(release)
			r := &Reconciler{watcher: forgettingWatcher{forgetting: &forgetting{}}}
			p := &releasePass{releaseScope: &releaseScope{release: release}}
			if tc.reason == decide.ReasonInstalledOnce {
				p.decision = decide.Decision{Action: model.ActionNone, Reason: tc.reason}
				if _, err := r.carryOut(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.finishOnce(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if tc.done {
				wantInstalledOnce(t, release)
			} else if len(release.Annotations) != 0 {
				t.Errorf("done: %v", release.Annotations)
			}
		})
	}
}
