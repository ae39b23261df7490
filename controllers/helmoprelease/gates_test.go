// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// gateOf returns a Reconciler whose gate reads from a cache and from the API server.
func gateOf(cached client.Client, live client.Reader) *Reconciler {
	return &Reconciler{client: cached, gate: dependencies.Gate{Client: cached, Live: live, Now: time.Now}}
}

// dependingPass returns a pass over the release of HelmOp app, which is Ready for its assigned revision.
func dependingPass(on ...addonsv1.Dependency) *releasePass {
	release := controllertest.ReadyRelease("app", func(r *addonsv1.HelmOpRelease) { r.Spec.DependsOn = on })
	report.SetCondition(release, addonsv1.ReleasedCondition, metav1.ConditionTrue, addonsv1.ReleasedReason,
		"Helm revision 1 is deployed")
	return &releasePass{releaseScope: &releaseScope{release: release, cluster: &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one", Labels: map[string]string{"cni": "yes", "dns": "yes"}},
	}}}
}

func TestReleaseWaitsForDependencies(t *testing.T) {
	t.Parallel()
	cni, dns := controllertest.UpToDateHelmOp(t, "cni", nil), controllertest.UpToDateHelmOp(t, "dns", nil)
	onApp := controllertest.UpToDateHelmOp(t, "cni",
		func(h *addonsv1.HelmOp) { h.Spec.DependsOn = controllertest.DependingOn("app") })
	notReady := func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, addonsv1.InstallFailedReason, "no room") }
	elsewhere := controllertest.ReadyRelease("cni",
		func(r *addonsv1.HelmOpRelease) { r.Name, r.Spec.ClusterRef.Name = "cni-two", "two" })
	foreign := controllertest.ReadyRelease("cni",
		func(r *addonsv1.HelmOpRelease) { r.Namespace, r.Spec.ClusterRef.Namespace = "m", "n" })
	tests := map[string]struct {
		dependencies []addonsv1.Dependency
		cached       []client.Object
		live         []client.Object
		reason, says string
	}{
		"ready": {dependencies: controllertest.DependingOn("cni"),
			cached: []client.Object{cni, controllertest.ReadyRelease("cni", nil)}},
		"both ready": {dependencies: controllertest.DependingOn("cni", "dns"),
			cached: []client.Object{cni, dns, controllertest.ReadyRelease("cni", nil), controllertest.ReadyRelease("dns", nil)}},
		"none": {cached: []client.Object{}},
		"not ready": {controllertest.DependingOn("cni"),
			[]client.Object{cni, controllertest.ReadyRelease("cni", notReady)}, nil, addonsv1.WaitingForDependenciesReason,
			"InstallFailed: No room"},
		"in another Cluster": {controllertest.DependingOn("cni"), []client.Object{cni, elsewhere}, nil,
			addonsv1.WaitingForDependenciesReason, "HelmOp cni has no release in Cluster one yet"},
		"in another namespace": {controllertest.DependingOn("cni"), []client.Object{cni, foreign}, nil,
			addonsv1.WaitingForDependenciesReason, "HelmOp cni has no release in Cluster one yet"},
		"two of three": {controllertest.DependingOn("cni", "dns", "csi"),
			[]client.Object{cni, dns, controllertest.ReadyRelease("cni", nil), controllertest.ReadyRelease("dns", notReady)},
			nil, addonsv1.WaitingForDependenciesReason,
			"The release of HelmOp dns is not Ready: InstallFailed: No room; HelmOp csi does not exist"},
		"many": {controllertest.DependingOn("a", "b", "c", "d", "e"), nil, nil,
			addonsv1.WaitingForDependenciesReason, "HelmOp c does not exist; and 2 more"},
		"the cache is stale": {controllertest.DependingOn("cni"),
			[]client.Object{cni, controllertest.ReadyRelease("cni", nil)},
			[]client.Object{controllertest.ReadyRelease("cni", func(r *addonsv1.HelmOpRelease) { r.Generation++ })},
			addonsv1.WaitingForDependenciesReason, "has not been checked yet"},
		"deleted, but in the cache": {controllertest.DependingOn("cni"),
			[]client.Object{cni, controllertest.ReadyRelease("cni", nil)}, []client.Object{},
			addonsv1.WaitingForDependenciesReason, "has no release in Cluster one yet"},
		"depends on itself": {controllertest.DependingOn("app"), []client.Object{controllertest.ReadyRelease("app", nil)},
			nil, addonsv1.DependencyCycleReason, "app → app"},
		"depend on each other": {controllertest.DependingOn("cni"),
			[]client.Object{onApp, controllertest.ReadyRelease("cni", nil)}, nil, addonsv1.DependencyCycleReason,
			"app → cni → app"},
		"malformed": {[]addonsv1.Dependency{{Name: "cni", ReadyExpr: "("}},
			[]client.Object{cni, controllertest.ReadyRelease("cni", nil)}, nil, addonsv1.InvalidDependencyReason,
			"readyExpr for HelmOp cni"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.live == nil {
				tc.live = tc.cached
			}
			r := gateOf(controllertest.StoreOf(t, tc.cached...), controllertest.StoreOf(t, tc.live...))
			p := dependingPass(tc.dependencies...)
			ok, err := r.mayAct(t.Context(), p, decide.Decision{Action: model.ActionUpgrade})
			if err != nil {
				t.Fatal(err)
			}
			ready := conditions.Get(p.release, addonsv1.ReadyCondition)
			if ok != (tc.reason == "") || !ok && (ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.says)) ||
				ok && ready.Status != report.True {
				t.Errorf("may act: %v, Ready is %v, want %q, %q", ok, ready, tc.reason, tc.says)
			}
			if !conditions.IsTrue(p.release, addonsv1.ReleasedCondition) {
				t.Error("Released changed, though nothing happened")
			}
			if !ok && !apiutil.IsAwaiting(p.release) {
				t.Error("it does not count as waiting")
			}
			if ok, err := r.mayAct(t.Context(), dependingPass(tc.dependencies...),
				decide.Decision{Action: model.ActionTest}); !ok || err != nil {
				t.Errorf("tests wait, error %v", err)
			}
			p = dependingPass(tc.dependencies...)
			p.desired.Return = true
			if ok, err := r.mayAct(t.Context(), p, decide.Decision{Action: model.ActionUpgrade}); !ok || err != nil {
				t.Errorf("a return waits, error %v", err)
			}
		})
	}
}

func TestUninstallationWaitsForDependents(t *testing.T) {
	t.Parallel()
	needing := controllertest.ReadyRelease("app",
		func(r *addonsv1.HelmOpRelease) { r.Spec.DependsOn = controllertest.DependingOn("cni") })
	elsewhere := controllertest.ReadyRelease("app", func(r *addonsv1.HelmOpRelease) {
		r.Spec.DependsOn = controllertest.DependingOn("cni")
		r.Spec.ClusterRef.Namespace = "m"
	})
	imageless := controllertest.ReadyRelease("app", func(r *addonsv1.HelmOpRelease) {
		r.Spec.DependsOn = controllertest.DependingOn("cni")
		r.Status.Release, r.Status.State = nil, string(model.StateAbsent)
		report.SetNotReady(r, addonsv1.ImagesMissingReason, "")
	})
	tests := map[string]struct {
		intent       deletionintent.Intent
		cached, live []client.Object
		want         bool
	}{
		"no dependent": {deletionintent.Uninstall, nil, nil, true},
		"a dependent": {deletionintent.Uninstall, []client.Object{needing}, []client.Object{needing},
			false},
		"the cache is stale":             {deletionintent.Uninstall, nil, []client.Object{needing}, false},
		"a dependent in another Cluster": {deletionintent.Uninstall, nil, []client.Object{elsewhere}, true},
		"a dependent waits for images": {deletionintent.Uninstall, []client.Object{imageless},
			[]client.Object{imageless}, true},
		"replaced": {deletionintent.Replace, []client.Object{needing}, []client.Object{needing}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := gateOf(controllertest.StoreOf(t, tc.cached...), controllertest.StoreOf(t, tc.live...))
			scope := &releaseScope{release: controllertest.ReadyRelease("cni", nil), cluster: dependingPass().cluster}
			got, err := r.mayUninstall(t.Context(), scope, tc.intent)
			if err != nil || got != tc.want {
				t.Fatalf("may end: %v, %v; want %v", got, err, tc.want)
			}
			ready := conditions.Get(scope.release, addonsv1.ReadyCondition)
			if !got && (ready.Reason != addonsv1.DeletingReason ||
				!strings.Contains(ready.Message, "waits for the release of HelmOp app")) {
				t.Errorf("Ready is %v", ready)
			}
		})
	}
}

// TestInstallationClaimsDependencies checks that the installation of a release and the uninstallation of its dependency
// never run at the same time. One of them must detect the other.
func TestInstallationClaimsDependencies(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, tc := range map[string]struct {
		isDeleted bool
		want      string
	}{
		"the dependency stays":                {false, addonsv1.UpdatingReason},
		"the dependency is deleted meanwhile": {true, addonsv1.WaitingForDependenciesReason},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dependingPass(controllertest.DependingOn("cni")...)
			p.release.Status.Release, p.release.Status.State = nil, string(model.StateAbsent)
			controllertest.AwaitDependencies(p.release)
			cni := controllertest.ReadyRelease("cni", nil)
			cached := controllertest.StoreOf(t, controllertest.UpToDateHelmOp(t, "cni", nil), cni, p.release)
			stored := func() *addonsv1.HelmOpRelease {
				release := &addonsv1.HelmOpRelease{}
				if err := cached.Get(t.Context(), client.ObjectKeyFromObject(p.release), release); err != nil {
					t.Fatal(err)
				}
				return release
			}
			// The dependency is deleted only after the release has written its coming installation.
			asked := 0
			live := interceptor.NewClient(controllertest.StoreOf(t, cni).(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
					opts ...client.GetOption) error {
					err := c.Get(ctx, key, obj, opts...)
					if asked++; tc.isDeleted && !dependencies.AwaitsInstall(stored()) {
						obj.SetDeletionTimestamp(&now)
					}
					return err
				},
			})
			r := gateOf(cached, live)
			p.release = stored()
			p.before = p.release.DeepCopy()
			install := decide.Decision{Action: model.ActionInstall}
			if ok, err := r.mayAct(t.Context(), p, install); err != nil || !ok || !dependencies.AwaitsInstall(stored()) {
				t.Fatalf("may act: %t, %v; or the dependencies are claimed too early", ok, err)
			}
			r.now = time.Now
			ok, err := r.claim(t.Context(), p, install)
			if err != nil || ok == tc.isDeleted || asked != 2 {
				t.Errorf("claims: %t, %v; %d requests", ok, err, asked)
			}
			if ready := conditions.Get(stored(), addonsv1.ReadyCondition); ready.Reason != addonsv1.UpdatingReason {
				t.Errorf("Ready is %v, so the dependencies are not claimed", ready)
			}
			// The claim also announces the first rendering, so the rendering writes nothing.
			claimed := stored()
			if err := r.beginRendering(t.Context(), p, install); err != nil || claimed.Status.Preparation == nil ||
				claimed.Status.Failures != 0 || stored().ResourceVersion != claimed.ResourceVersion {
				t.Errorf("%v; the status is %+v after the claim, or a second write", err, claimed.Status)
			}
			if tc.isDeleted {
				if err := report.WriteObject(t.Context(), cached, p.before, p.release, releaseConditions); err != nil {
					t.Fatal(err)
				}
			}
			if ready := conditions.Get(stored(), addonsv1.ReadyCondition); ready.Reason != tc.want {
				t.Errorf("Ready is %v, want %s", ready, tc.want)
			}
		})
	}
}

// movedAway is a client whose cache no longer has the release, because the release got the label of another shard.
type movedAway struct{ *writes }

func (movedAway) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, "")
}

// TestMovedReleaseIsNotClaimed checks a release that moves to another shard before its installation. This manager must
// write nothing: the installation that it would announce does not follow.
func TestMovedReleaseIsNotClaimed(t *testing.T) {
	t.Parallel()
	p := dependingPass(controllertest.DependingOn("cni")...)
	p.release.ResourceVersion = ""
	p.release.Status.Release, p.release.Status.State = nil, string(model.StateAbsent)
	controllertest.AwaitDependencies(p.release)
	w := newWrites(t, p.release)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(p.release), p.release); err != nil {
		t.Fatal(err)
	}
	p.before = p.release.DeepCopy()
	r := gateOf(movedAway{w}, w)
	r.now = time.Now
	_, err := r.perform(t.Context(), p, decide.Decision{Action: model.ActionInstall}, &releaseInputs{})
	if err != nil || len(w.sent) != 0 || !p.isOfOtherShard {
		t.Errorf("%v, sent %q, of another shard: %t", err, w.sent, p.isOfOtherShard)
	}
}

// TestRefusedAdoption checks the reasons why a release of another owner is not changed.
func TestRefusedAdoption(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		decide.ReasonConflict:    addonsv1.ReleaseConflictReason,
		decide.ReasonWouldChange: addonsv1.AdoptionWouldChangeReason,
	} {
		recorder := events.NewFakeRecorder(9)
		release := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
		p := &releasePass{releaseScope: &releaseScope{release: release}, decision: decide.Decision{
			State: model.StateForeign, Action: model.ActionRefuse, Reason: reason, Message: "why",
		}}
		for range 2 {
			if _, err := (&Reconciler{recorder: recorder}).carryOut(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		if got := conditions.GetReason(release, addonsv1.ReadyCondition); got != want || len(recorder.Events) != 1 {
			t.Errorf("%s: %s and %d Events, want %s and one Event", reason, got, len(recorder.Events), want)
		}
		if p.requeueAfter != conflictRetry {
			t.Errorf("%s: the next check is after %s", reason, p.requeueAfter)
		}
		p.decision.RequeueAfter = decide.OtherProcessRetry
		if _, err := (&Reconciler{recorder: recorder}).carryOut(t.Context(), p); err != nil ||
			p.requeueAfter != decide.OtherProcessRetry {
			t.Errorf("%s: while the owner works on it, the next check is after %s: %v", reason, p.requeueAfter, err)
		}
	}
}

// TestPreparationEndsWithoutAction checks that a release that needs no action has no preparation of an artifact.
func TestPreparationEndsWithoutAction(t *testing.T) {
	t.Parallel()
	for action, ends := range map[model.Action]bool{model.ActionNone: true, model.ActionWait: false} {
		release := controllertest.ReadyRelease("cni", nil)
		release.Status.Preparation = &addonsv1.ReleasePreparation{Key: "other", Count: 1}
		p := &releasePass{releaseScope: &releaseScope{release: release}, decision: decide.Decision{Action: action}}
		if _, err := (&Reconciler{}).carryOut(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if (release.Status.Preparation == nil) != ends {
			t.Errorf("after %s, the preparation is %+v", action, release.Status.Preparation)
		}
	}
}

// TestPendingAdoptionIsReported checks the report of a release whose adoption waits for the rollout.
func TestPendingAdoptionIsReported(t *testing.T) {
	t.Parallel()
	// The Reconciler has no engine, so an action would fail.
	release := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
	release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1, Reason: addonsv1.ReleaseRolloutJoined}
	p := &releasePass{releaseScope: &releaseScope{release: release}, decision: decide.Decision{
		State: model.StateForeign, Action: model.ActionAdopt, Reason: decide.ReasonAdopt,
	}}
	if end, err := (&Reconciler{}).carryOut(t.Context(), p); end != nil || err != nil {
		t.Errorf("%v, %v", end, err)
	}
	for _, name := range []string{addonsv1.ReadyCondition, addonsv1.ReleasedCondition} {
		if reason := conditions.GetReason(release, name); reason != addonsv1.AdoptionPendingReason {
			t.Errorf("%s has the reason %s", name, reason)
		}
	}
}
