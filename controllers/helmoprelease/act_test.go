// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestFirstRenderingCountsAsAttempt checks that the status has a failed attempt if the manager stops during the first
// rendering of an artifact. The result of the attempt must replace this failure.
func TestFirstRenderingCountsAsAttempt(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	install := decide.Decision{Action: model.ActionInstall, Failures: 2}
	upgrade := decide.Decision{Action: model.ActionUpgrade, Failures: 2}
	for name, tc := range map[string]struct {
		change   func(*Reconciler, *releasePass)
		decision decide.Decision
		want     int32
	}{
		"the first time":    {decision: install, want: 3},
		"an uninstallation": {decision: decide.Decision{Action: model.ActionUninstall}},
		"rendered before": {decision: install, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(install.Action, p.release.Spec.Artifact.Digest, helmclient.Result{}, nil)
		}},
		"an earlier rendering exceeded its limits": {decision: install, want: 3, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(install.Action, p.release.Spec.Artifact.Digest, helmclient.Result{},
				&helmerr.Error{Kind: helmerr.ErrRenderLimit})
		}},
		"the chart rejected an earlier attempt": {decision: install, want: 3, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(install.Action, p.release.Spec.Artifact.Digest, helmclient.Result{},
				&helmerr.Error{Kind: helmerr.ErrChartFailed})
		}},
		"an adoption that would change the release": {decision: install, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(model.ActionAdopt, p.release.Spec.Artifact.Digest, helmclient.Result{},
				&helmerr.Error{Kind: helmerr.ErrWouldChange})
		}},
		"the release is made from the artifact": {decision: upgrade, change: func(_ *Reconciler, p *releasePass) {
			p.before.Status.Release = &addonsv1.ReleaseObservation{ArtifactDigest: p.release.Spec.Artifact.Digest}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := controllertest.ReadyRelease("cni", nil)
			stored.ResourceVersion = ""
			stored.Status.Preparation = &addonsv1.ArtifactPreparation{Key: "ended", Count: 1}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
			read := func() *addonsv1.HelmOpRelease {
				release := &addonsv1.HelmOpRelease{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), release); err != nil {
					t.Fatal(err)
				}
				return release
			}
			now := time.Unix(1_800_000_000, 0)
			r := &Reconciler{client: c, now: func() time.Time { return now }}
			release := read()
			release.Status.Release = nil
			p := &releasePass{releaseScope: &releaseScope{release: release, before: release.DeepCopy()},
				desired: model.Desired{ArtifactDigest: "a"}}
			release.Status.Preparation = nil
			if tc.change != nil {
				tc.change(r, p)
			}
			before := read().Status.Failures
			if err := r.countAttempt(t.Context(), p, tc.decision); err != nil {
				t.Fatal(err)
			}
			counted := read()
			if tc.want == 0 {
				if counted.Status.Failures != before {
					t.Errorf("%d failures, want none to be counted", counted.Status.Failures)
				}
				return
			}
			at := metav1.NewTime(now.Add(-time.Second))
			if counted.Status.Failures != tc.want || !counted.Status.LastAttemptedAt.Equal(&at) ||
				counted.Status.LastError == "" || counted.Status.Preparation != nil {
				t.Errorf("status %+v", counted.Status)
			}
			past := (&releasePass{releaseScope: &releaseScope{release: counted}, desired: p.desired}).past()
			if past.Failures != int(tc.want) || past.RetryRequested {
				t.Errorf("the next manager finds %+v", past)
			}
			// The attempt did not reach the cluster, so it does not count.
			if err := report.WriteObject(t.Context(), c, p.before, release, releaseConditions); err != nil {
				t.Fatal(err)
			}
			if after := read(); after.Status.Failures != before || after.Status.LastError != release.Status.LastError {
				t.Errorf("after the result: %+v", after.Status)
			}
		})
	}
}

// actingEngine is an Engine whose actions render, unless the renderer keeps the failure of the same input.
type actingEngine struct {
	Engine
	// isKept means that the renderer keeps a failure, so that no code of the chart runs.
	isKept bool
	// rendering is called instead of code of the chart.
	rendering func()
}

func (*actingEngine) Saw(string, string, string, map[inventory.Ref]model.ObjectVersion) {}

func (e *actingEngine) Act(_ context.Context, _ model.Target, _ decide.Decision, _ model.Desired, options model.Options,
	_ *bundle.Chart, _ map[string]any,
) (helmclient.Result, error) {
	// An action runs several tasks: the schema, the templates and the post-rendering.
	for range 2 {
		if e.isKept {
			break
		}
		if err := options.BeforeRender(); err != nil {
			return helmclient.Result{}, &helmerr.Error{Message: err.Error()}
		}
		e.rendering()
	}
	return helmclient.Result{}, &helmerr.Error{Kind: helmerr.ErrChartFailed, Message: "because"}
}

// TestRenderingOfActionIsCounted checks that an attempt is counted once before code of its chart runs, also after the
// chart rejected the same attempt. An attempt that runs no such code writes nothing.
func TestRenderingOfActionIsCounted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		isKept bool
		// isStale means that another program has written the release meanwhile.
		isStale bool
		// renderings is how often code of the chart runs.
		renderings, writes int
	}{
		"the chart fails again":    {renderings: 2, writes: 1},
		"the failure is kept":      {isKept: true},
		"the count cannot be made": {isStale: true, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := controllertest.ReadyRelease("cni", nil)
			stored.Status.Release, stored.ResourceVersion = nil, ""
			w, key := newWrites(t, stored), client.ObjectKeyFromObject(stored)
			read := func() *addonsv1.HelmOpRelease {
				release := &addonsv1.HelmOpRelease{}
				if err := w.Get(t.Context(), key, release); err != nil {
					t.Fatal(err)
				}
				return release
			}
			renderings := 0
			engine := &actingEngine{isKept: tc.isKept, rendering: func() {
				renderings++
				if failures := read().Status.Failures; failures != 1 {
					t.Errorf("%d failures while the chart renders, want 1", failures)
				}
			}}
			r := &Reconciler{client: w, engine: engine, now: time.Now, recorder: events.NewFakeRecorder(5),
				budgets: report.NewEventBudgets(time.Now), watcher: forgettingWatcher{forgetting: &forgetting{}}}
			release := read()
			install := decide.Decision{Action: model.ActionInstall}
			p := &releasePass{releaseScope: &releaseScope{release: release, before: release.DeepCopy()}, decision: install}
			r.rendered.Note(install.Action, p.release.Spec.Artifact.Digest, helmclient.Result{},
				&helmerr.Error{Kind: helmerr.ErrChartFailed})
			if tc.isStale {
				other := read()
				other.Labels = map[string]string{"a": "b"}
				if err := w.Update(t.Context(), other); err != nil {
					t.Fatal(err)
				}
			}
			_, err := r.perform(t.Context(), p, install, &releaseInputs{})
			if apierrors.IsConflict(err) != tc.isStale {
				t.Errorf("got %v", err)
			}
			if renderings != tc.renderings || len(w.sent) != tc.writes {
				t.Errorf("%d renderings, writes %q", renderings, w.sent)
			}
			if err := report.WriteObject(t.Context(), w, p.before, p.release, releaseConditions); err != nil {
				t.Fatal(err)
			}
			if after := read(); after.Status.Failures != 0 {
				t.Errorf("%d failures after the result, want 0", after.Status.Failures)
			}
		})
	}
}

// unparsed is a registry with an artifact that no process has parsed.
type unparsed struct {
	artifacts.Fetcher
	artifacts.ChartLoader
	isParsed bool
}

func (*unparsed) Stored(url, digest string) (*oci.Content, bool) {
	return &oci.Content{URL: url, Digest: digest}, true
}

func (u *unparsed) Cached(bundle.Source) (*bundle.Chart, bool) { return nil, u.isParsed }

// TestPreparationOfArtifactIsCounted checks that the status has the preparation of an artifact before it begins, and
// that the next manager waits if it did not end. A pass that ends because the artifact is being fetched must not write
// a second time.
func TestPreparationOfArtifactIsCounted(t *testing.T) {
	t.Parallel()
	stored := controllertest.ReadyRelease("cni", nil)
	stored.Status.Release, stored.ResourceVersion = nil, ""
	w, key := newWrites(t, stored), client.ObjectKeyFromObject(stored)
	now, registry := controllertest.Noon, &unparsed{}
	manager := func() *Reconciler {
		return &Reconciler{client: w, now: func() time.Time { return now },
			charts: artifacts.New(registry, registry, nil, nil, 4)}
	}
	read := func() *addonsv1.HelmOpRelease {
		release := &addonsv1.HelmOpRelease{}
		if err := w.Get(t.Context(), key, release); err != nil {
			t.Fatal(err)
		}
		return release
	}
	// pass is a pass that ends while the artifact is being fetched.
	pass := func(r *Reconciler, wantsWait bool, writes int) {
		t.Helper()
		release := read()
		p := &releasePass{releaseScope: &releaseScope{release: release, before: release.DeepCopy()}}
		w.sent = nil
		result, err, ok := r.beginPreparation(t.Context(), p)
		if err != nil || ok == wantsWait || (result.RequeueAfter > 0) != wantsWait {
			t.Fatalf("got %+v, %v, %t", result, err, ok)
		}
		if ok {
			if before := read().Status.Preparation; !registry.isParsed && before == nil {
				t.Error("the preparation is not in the status before it begins")
			}
			if _, err := r.failed(t.Context(), p.releaseScope, failures.Fetching, artifacts.ErrFetching); err != nil {
				t.Fatal(err)
			}
		}
		p.settleStatus()
		if err := report.WriteObject(t.Context(), w, p.before, release, releaseConditions); err != nil {
			t.Fatal(err)
		}
		if len(w.sent) != writes {
			t.Errorf("writes %q, want %d", w.sent, writes)
		}
		now = now.Add(result.RequeueAfter)
	}
	first := manager()
	pass(first, false, 1)
	pass(first, false, 0)
	second := manager()
	pass(second, true, 1)
	pass(second, false, 1)
	if count := read().Status.Preparation.Count; count != 2 {
		t.Errorf("%d preparations are counted, want 2", count)
	}
	registry.isParsed = true
	pass(manager(), false, 0)
}
