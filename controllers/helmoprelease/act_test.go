// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// TestFirstRenderingIsAnnounced checks which renderings are written into the status before they begin. The write must
// not count a failed attempt: a rollout would stop.
func TestFirstRenderingIsAnnounced(t *testing.T) {
	t.Parallel()
	install := decide.Decision{Action: model.ActionInstall, Failures: 2}
	upgrade := decide.Decision{Action: model.ActionUpgrade, Failures: 2}
	// renderedBut makes an earlier rendering that differs from the attempt.
	renderedBut := func(change func(*model.Desired)) func(*Reconciler, *releasePass) {
		return func(r *Reconciler, p *releasePass) {
			other := p.desired
			change(&other)
			r.rendered.Note(upgrade.Action, &other, helmclient.Result{}, nil)
		}
	}
	// failed makes an earlier rendering with an error.
	failed := func(action model.Action, kind error) func(*Reconciler, *releasePass) {
		return func(r *Reconciler, p *releasePass) {
			r.rendered.Note(action, &p.desired, helmclient.Result{}, &helmerr.Error{Kind: kind})
		}
	}
	for name, tc := range map[string]struct {
		change   func(*Reconciler, *releasePass)
		decision decide.Decision
		want     bool
	}{
		"the first time":    {decision: install, want: true},
		"an uninstallation": {decision: decide.Decision{Action: model.ActionUninstall}},
		"rendered before":   {decision: install, change: renderedBut(func(*model.Desired) {})},
		"rendered before, with other values": {decision: upgrade, want: true,
			change: renderedBut(func(d *model.Desired) { d.ValuesDigest = "b" })},
		"rendered before, with other options": {decision: upgrade, want: true,
			change: renderedBut(func(d *model.Desired) { d.OptionsDigest = "b" })},
		"rendered before, with other post-rendering": {decision: upgrade, want: true,
			change: renderedBut(func(d *model.Desired) { d.PostRenderDigest = "b" })},
		"an earlier rendering exceeded its limits": {decision: install, want: true,
			change: failed(install.Action, helmerr.ErrRenderLimit)},
		"the chart rejected an earlier attempt": {decision: install, want: true,
			change: failed(install.Action, helmerr.ErrChartFailed)},
		"an adoption that would change the release": {decision: install,
			change: failed(model.ActionAdopt, helmerr.ErrWouldChange)},
		"the release is made from the artifact": {decision: upgrade, want: true,
			change: func(_ *Reconciler, p *releasePass) {
				p.before.Status.Release = &addonsv1.ReleaseObservation{ArtifactDigest: p.release.Spec.Artifact.Digest}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := controllertest.ReadyRelease("cni", nil)
			stored.ResourceVersion = ""
			stored.Status.Preparation = &addonsv1.ReleasePreparation{Key: "other", Count: 1}
			w := newWrites(t, stored)
			read := func() *addonsv1.HelmOpRelease {
				release := &addonsv1.HelmOpRelease{}
				if err := w.Get(t.Context(), client.ObjectKeyFromObject(stored), release); err != nil {
					t.Fatal(err)
				}
				return release
			}
			r := &Reconciler{client: w, now: time.Now}
			release := read()
			release.Status.Release = nil
			p := &releasePass{releaseScope: &releaseScope{release: release, before: release.DeepCopy()},
				desired: model.Desired{ArtifactDigest: "a"}}
			release.Status.Preparation = nil
			if tc.change != nil {
				tc.change(r, p)
			}
			before := read()
			for range 2 {
				if err := r.beginRendering(t.Context(), p, tc.decision); err != nil {
					t.Fatal(err)
				}
			}
			begun := read()
			if isBegun := begun.Status.Preparation.Key != "other"; isBegun != tc.want || len(w.sent) > 1 {
				t.Errorf("preparation %+v, writes %q", begun.Status.Preparation, w.sent)
			}
			begun.Status.Preparation = before.Status.Preparation
			if !equality.Semantic.DeepEqual(begun.Status, before.Status) {
				t.Errorf("the write changes more: %+v", begun.Status)
			}
			if err := report.WriteObject(t.Context(), w, p.before, release, releaseConditions); err != nil {
				t.Fatal(err)
			}
			if after := read(); after.Status.Preparation != nil {
				t.Errorf("after the result: %+v", after.Status.Preparation)
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

func (*actingEngine) Access(model.Target) (*model.Access, error) { return &model.Access{}, nil }

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

// TestRenderingOfActionIsAnnounced checks that the status has a rendering once before code of its chart runs, also
// after the chart rejected the same attempt. An attempt that runs no such code writes nothing.
func TestRenderingOfActionIsAnnounced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		isKept bool
		// isStale means that another program has written the release meanwhile.
		isStale bool
		// renderings is how often code of the chart runs.
		renderings, writes int
	}{
		"the chart fails again":       {renderings: 2, writes: 1},
		"the failure is kept":         {isKept: true},
		"the status has other writes": {isStale: true, writes: 1},
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
				if status := read().Status; status.Preparation == nil || status.Failures != 0 {
					t.Errorf("while the chart renders, the status is %+v", status)
				}
			}}
			r := &Reconciler{client: w, engine: engine, now: time.Now, recorder: events.NewFakeRecorder(5),
				budgets: report.NewEventBudgets(time.Now), watcher: forgettingWatcher{forgetting: &forgetting{}}}
			release := read()
			install := decide.Decision{Action: model.ActionInstall}
			p := &releasePass{releaseScope: &releaseScope{release: release, before: release.DeepCopy()}, decision: install}
			r.rendered.Note(install.Action, &p.desired, helmclient.Result{}, &helmerr.Error{Kind: helmerr.ErrChartFailed})
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
			if after := read(); after.Status.Failures != 0 || after.Status.Preparation != nil {
				t.Errorf("after the result, the status is %+v", after.Status)
			}
		})
	}
}

// newActBench returns a Reconciler with a release whose chart is parsed, and with a template of its values.
func newActBench(t *testing.T, template string) *upgradeBench {
	t.Helper()
	b := newUpgradeBench(t)
	b.HelmOp.Spec.Source.URL, b.HelmOp.Spec.ValuesTemplate = "oci://r.example/charts/a", template
	b.Release.Spec.Artifact = addonsv1.ResolvedArtifact{URL: b.HelmOp.Spec.Source.URL, Digest: "sha256:a"}
	b.Release.Spec.Rollout = nil
	b.build()
	if err := b.r.client.Get(t.Context(), client.ObjectKeyFromObject(b.Release), b.Release); err != nil {
		t.Fatal(err)
	}
	b.r.references = references.NewReader(b.r.client, b.r.client)
	b.parse(true)
	if rendered, _, err := b.r.renderer.Values(t.Context(), b.HelmOp, b.newPass().object, b.Cluster); err == nil {
		b.Release.Spec.ValuesDigest, b.Release.Spec.PostRenderDigest = rendered.Digest, rendered.PostRenderDigest
	}
	return b
}

// parse sets whether the chart is parsed.
func (b *upgradeBench) parse(isParsed bool) {
	registry := &unparsed{isParsed: isParsed}
	b.r.charts = artifacts.New(registry, registry, nil, b.r.references, 4)
}

// takeSlot takes the only slot of the Cluster for another release.
func (b *upgradeBench) takeSlot() (done func()) {
	b.Helper()
	done, ok := b.r.slots.Acquire(slots.Claim{Release: client.ObjectKey{Name: "other"}, Cluster: "team/one"})
	if !ok {
		b.Fatal("the slot is not free")
	}
	return done
}

// TestValuesAreRenderedWithSlot has values that cannot be rendered, so the report shows whether they were rendered. A
// pass that gets no slot must not render them, whether the release waits already or not. The slot is free after the
// pass.
func TestValuesAreRenderedWithSlot(t *testing.T) {
	t.Parallel()
	b := newActBench(t, `a: {{ fail "rendered" }}`)
	key := client.ObjectKeyFromObject(b.Release)
	done := b.takeSlot()
	for i := range 2 {
		result, err := b.r.act(t.Context(), b.newPass(), upgrading)
		b.r.slots.Settle(key)
		if err != nil || !result.IsZero() || !b.r.slots.IsWaiting(key) || b.Release.Status.LastError != "" {
			t.Fatalf("pass %d without a slot: %+v, %v, waits %t, %+v", i, result, err, b.r.slots.IsWaiting(key),
				b.Release.Status.Conditions)
		}
	}
	done()
	result, err := b.r.act(t.Context(), b.newPass(), upgrading)
	b.r.slots.Settle(key)
	if err != nil || result.RequeueAfter == 0 || !strings.Contains(b.Release.Status.LastError, "rendered") {
		t.Errorf("with a slot: %+v, %v, %+v", result, err, b.Release.Status.Conditions)
	}
	b.takeSlot()()
}

// TestPullNeedsNoSlot has a chart that is not available. The release must not wait for a slot, because a pull may take
// minutes, and must not hold one meanwhile.
func TestPullNeedsNoSlot(t *testing.T) {
	t.Parallel()
	b := newActBench(t, "a: b")
	b.parse(false)
	for _, isTaken := range []bool{false, true} {
		done := func() {}
		if isTaken {
			done = b.takeSlot()
		}
		if _, err := b.r.act(t.Context(), b.newPass(), upgrading); err != nil ||
			conditions.GetReason(b.Release, addonsv1.ReleasedCondition) != addonsv1.FetchingArtifactReason ||
			b.r.slots.IsWaiting(client.ObjectKeyFromObject(b.Release)) {
			t.Errorf("the slot is taken: %t: %v, %+v", isTaken, err, b.Release.Status.Conditions)
		}
		done()
		b.takeSlot()()
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

// Chart parses the artifact until the manager stops.
func (*unparsed) Chart(ctx context.Context, _ bundle.Source) (*bundle.Chart, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// stoppingManagers are managers that stop during passes over one release. Only the state in the API server is left
// then.
type stoppingManagers struct {
	*testing.T
	store    *writes
	key      client.ObjectKey
	registry *unparsed
	now      time.Time
	desired  model.Desired
}

func newStoppingManagers(t *testing.T, change func(*addonsv1.HelmOpRelease)) *stoppingManagers {
	t.Helper()
	stored := controllertest.ReadyRelease("cni", nil)
	stored.Status.Release, stored.ResourceVersion = nil, ""
	change(stored)
	return &stoppingManagers{T: t, store: newWrites(t, stored), key: client.ObjectKeyFromObject(stored),
		registry: &unparsed{}, now: controllertest.Noon}
}

// start returns another manager.
func (m *stoppingManagers) start(engine Engine) *Reconciler {
	return &Reconciler{client: m.store, now: func() time.Time { return m.now }, engine: engine,
		recorder: events.NewFakeRecorder(5), budgets: report.NewEventBudgets(time.Now),
		charts: artifacts.New(m.registry, m.registry, nil, nil, 4)}
}

func (m *stoppingManagers) read() *addonsv1.HelmOpRelease {
	m.Helper()
	release := &addonsv1.HelmOpRelease{}
	if err := m.store.Get(m.Context(), m.key, release); err != nil {
		m.Fatal(err)
	}
	return release
}

// begin begins a pass over the release as the API server has it.
func (m *stoppingManagers) begin() *releasePass {
	release := m.read()
	m.store.sent = nil
	before := release.DeepCopy()
	release.Status.NextTryAt = metav1.Time{} // As carryOut does.
	return &releasePass{releaseScope: &releaseScope{release: release, before: before}, desired: m.desired}
}

// end ends a pass, which must have written the status so often.
func (m *stoppingManagers) end(p *releasePass, writes int) {
	m.Helper()
	p.settleStatus()
	if err := report.WriteObject(m.Context(), m.store, p.before, p.release, releaseConditions); err != nil {
		m.Fatal(err)
	}
	if len(m.store.sent) != writes {
		m.Errorf("writes %q, want %d", m.store.sent, writes)
	}
}

// fetch makes a pass that ends with an error of the fetch, unless the release must wait. The result is the wait.
func (m *stoppingManagers) fetch(r *Reconciler, cause error, writes int) time.Duration {
	m.Helper()
	p := m.begin()
	result, err, ok := r.beginPreparation(m.Context(), p)
	if err != nil || ok != (result.RequeueAfter == 0) {
		m.Fatalf("got %+v, %v, %t", result, err, ok)
	}
	if ok && cause != nil {
		if _, err := r.fetchFailed(m.Context(), p, cause); err != nil {
			m.Fatal(err)
		}
	}
	m.end(p, writes)
	return result.RequeueAfter
}

// TestPreparationOfArtifactIsWritten checks that the status has the preparation of an artifact before it begins, and
// that the next manager waits if it did not end. A pass that ends because the artifact is being fetched must not write
// a second time, also if the release waits for its dependencies or its images.
func TestPreparationOfArtifactIsWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*addonsv1.HelmOpRelease){
		"ready":                  func(*addonsv1.HelmOpRelease) {},
		"waits for dependencies": controllertest.AwaitDependencies,
		"waits for images": func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, addonsv1.ImagesMissingReason, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newStoppingManagers(t, change)
			first, second := m.start(nil), m.start(nil)
			m.fetch(first, artifacts.ErrFetching, 1)
			if m.read().Status.Preparation == nil {
				t.Error("the preparation is not in the status")
			}
			m.fetch(first, artifacts.ErrFetching, 0)
			wait := m.fetch(second, nil, 1)
			if wait == 0 {
				t.Error("the next manager does not wait")
			}
			m.now = m.now.Add(wait)
			m.fetch(second, artifacts.ErrFetching, 1)
			if count := m.read().Status.Preparation.Count; count != 2 {
				t.Errorf("%d preparations are counted, want 2", count)
			}
			m.registry.isParsed = true
			if wait := m.fetch(second, nil, 0); wait != 0 {
				t.Errorf("a parsed chart waits for %s", wait)
			}
		})
	}
}

// TestRestartAfterFailedFetch checks that a restart does not delay a release whose registry does not respond. The
// retries of one manager must not write.
func TestRestartAfterFailedFetch(t *testing.T) {
	t.Parallel()
	m := newStoppingManagers(t, func(*addonsv1.HelmOpRelease) {})
	down := sharedPull{&ocierr.Error{Op: "pull", Kind: ocierr.ErrUnreachable}}
	for restart := range 3 {
		manager := m.start(nil)
		if wait := m.fetch(manager, artifacts.ErrFetching, 1); wait != 0 {
			t.Fatalf("restart %d: the release waits for %s", restart, wait)
		}
		m.fetch(manager, down, 1)
		if begun := m.read().Status.Preparation; begun != nil {
			t.Errorf("restart %d: after the failure, the preparation is %+v", restart, begun)
		}
		m.fetch(manager, artifacts.ErrRefetching, 0)
		m.fetch(manager, down, 0)
	}
}

// TestManagerIsKilledDuringRendering kills a manager while it renders new values of an installed artifact. The next
// manager must wait, and the release must not count as failed. Changed values and a retry request must not wait.
func TestManagerIsKilledDuringRendering(t *testing.T) {
	t.Parallel()
	m := newStoppingManagers(t, func(r *addonsv1.HelmOpRelease) {
		r.Status.Release = &addonsv1.ReleaseObservation{Revision: 1, ArtifactDigest: r.Spec.Artifact.Digest}
	})
	m.registry.isParsed = true
	m.desired.ValuesDigest = "new"
	var wait time.Duration
	for stop := range 3 {
		var killed *addonsv1.HelmOpRelease
		r := m.start(&actingEngine{rendering: func() { killed = m.read() }})
		r.watcher = forgettingWatcher{forgetting: &forgetting{}}
		p := m.begin()
		if _, err, ok := r.beginPreparation(t.Context(), p); !ok {
			t.Fatal(err)
		}
		if _, err := r.perform(t.Context(), p, decide.Decision{Action: model.ActionUpgrade}, &releaseInputs{}); err != nil {
			t.Fatal(err)
		}
		// The first manager writes before the rendering, and the write with the result is lost.
		if killed.Status.Preparation == nil || killed.Status.Preparation.Count != int32(stop+1) || len(m.store.sent) != 1 {
			t.Fatalf("stop %d: preparation %+v, writes %q", stop, killed.Status.Preparation, m.store.sent)
		}
		next := m.fetch(m.start(nil), nil, 1)
		if next <= wait {
			t.Errorf("stop %d: the next manager waits for %s, the former for %s", stop, next, wait)
		}
		wait = next
		waiting := m.read()
		if message := conditions.GetMessage(waiting, addonsv1.ReadyCondition); waiting.Status.Failures != 0 ||
			releasestatus.HasFailed(waiting) || !strings.Contains(message, "The former manager stopped") ||
			waiting.Status.NextTryAt.IsZero() {
			t.Errorf("stop %d: %q, %+v", stop, message, waiting.Status)
		}
		m.expectNoWait()
		m.now = m.now.Add(wait)
	}
}

// TestEndedRenderingIsForgotten checks that an interrupted rendering does not count any more when the next rendering
// has ended.
func TestEndedRenderingIsForgotten(t *testing.T) {
	t.Parallel()
	m := newStoppingManagers(t, func(*addonsv1.HelmOpRelease) {})
	m.registry.isParsed = true
	var counts []int32
	engine := &actingEngine{rendering: func() { counts = append(counts, m.read().Status.Preparation.Count) }}
	render := func(r *Reconciler) *releasePass {
		t.Helper()
		r.watcher = forgettingWatcher{forgetting: &forgetting{}}
		p := m.begin()
		if _, err := r.perform(t.Context(), p, decide.Decision{Action: model.ActionInstall}, &releaseInputs{}); err != nil {
			t.Fatal(err)
		}
		return p
	}
	render(m.start(engine)) // It is killed: the result is not written.
	second := m.start(engine)
	for range 2 {
		m.end(render(second), 2)
	}
	// Each action runs two tasks.
	if want := []int32{1, 1, 2, 2, 1, 1}; !slices.Equal(counts, want) {
		t.Errorf("the preparations have the counts %d, want %d", counts, want)
	}
}

// expectNoWait checks what ends the wait of a manager early.
func (m *stoppingManagers) expectNoWait() {
	m.Helper()
	for name, change := range map[string]func(*Reconciler, *releasePass){
		"other values": func(_ *Reconciler, p *releasePass) { p.desired.ValuesDigest = "newer" },
		"a retry request": func(_ *Reconciler, p *releasePass) {
			p.release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "now"}
		},
		"rendered for another Cluster": func(r *Reconciler, p *releasePass) {
			r.rendered.Note(model.ActionUpgrade, &p.desired, helmclient.Result{}, nil)
		},
	} {
		r, p := m.start(nil), m.begin()
		change(r, p)
		if result, err, ok := r.beginPreparation(m.Context(), p); !ok {
			m.Errorf("%s: %+v, %v", name, result, err)
		}
	}
}

// TestFailedReleaseWaitsAfterStop checks the report of a failed release that waits after the stop of a manager.
func TestFailedReleaseWaitsAfterStop(t *testing.T) {
	t.Parallel()
	m := newStoppingManagers(t, func(r *addonsv1.HelmOpRelease) {
		releasestatus.NotReleased(r, addonsv1.UpgradeFailedReason, "it is broken")
		(&attempts.Subject{Release: r}).Write(&r.Status, 2, metav1.Now())
		r.Status.LastError = "it is broken"
	})
	m.fetch(m.start(nil), artifacts.ErrFetching, 1)
	m.fetch(m.start(nil), nil, 1)
	release := m.read()
	if message := conditions.GetMessage(release, addonsv1.ReleasedCondition); !releasestatus.HasFailed(release) ||
		!strings.Contains(message, "The former manager stopped") || !strings.Contains(message, "it is broken") {
		t.Errorf("%q, %+v", message, release.Status)
	}
}
