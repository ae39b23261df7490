// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// renderingEngine is an Engine that only renders.
type renderingEngine struct {
	Engine
	manifest string
	hooks    []string
	err      error
	rendered int
	// before is called before each rendering, with its context.
	before func(context.Context)
}

func (e *renderingEngine) Render(ctx context.Context, _ model.Target, _ model.Desired, options model.Options,
	_ *bundle.Chart, _ map[string]any,
) (dryrun.Result, error) {
	e.rendered++
	if err := options.BeforeRender(); err != nil {
		return dryrun.Result{}, err
	}
	if e.before != nil {
		e.before(ctx)
	}
	return dryrun.Result{Manifest: e.manifest, Hooks: e.hooks}, e.err
}

// answering is a registry that has each image or returns its error.
type answering map[string]error

func (a answering) Head(_ context.Context, url, reference string, _ oci.Access) (string, error) {
	return "sha256:1", a[url+":"+reference]
}

// checkingReconciler returns a Reconciler that has rendered the empty desired state before.
func checkingReconciler(t *testing.T, registry preflight.Registry, engine Engine) *Reconciler {
	t.Helper()
	c := controllertest.StoreOf(t)
	r := &Reconciler{images: preflight.New(registry, 8), engine: engine, recorder: events.NewFakeRecorder(5), client: c,
		references: references.NewReader(c, c), budgets: report.NewEventBudgets(time.Now), now: time.Now}
	r.rendered.Note(model.ActionUpgrade, &model.Desired{}, helmclient.Result{}, nil)
	return r
}

// checkedPass returns a pass over a release at a decision.
func checkedPass(decision decide.Decision, checks *addonsv1.Preflight) *releasePass {
	helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{URL: "oci://r.example/charts/a"})
	helmOp.Spec.Preflight = checks
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
	release.Spec.Artifact.URL = helmOp.Spec.Source.URL
	return &releasePass{releaseScope: &releaseScope{release: release, before: release.DeepCopy(), helmOp: helmOp},
		decision: decision}
}

// checkBoth checks the images like act does: before and after it acquires a slot.
func checkBoth(t *testing.T, r *Reconciler, p *releasePass, decision decide.Decision) (ctrl.Result, error, bool) {
	t.Helper()
	check, result, err, ok := r.recheckImages(t.Context(), p, decision)
	if !ok {
		return result, err, ok
	}
	return r.hasImages(t.Context(), p, decision, check, &releaseInputs{})
}

// TestHasImages checks which images and decisions permit a change of the release, and the report of all others.
func TestHasImages(t *testing.T) {
	t.Parallel()
	absent, silent := &ocierr.Error{Kind: ocierr.ErrNotFound}, &ocierr.Error{Op: "look up", Kind: ocierr.ErrUnreachable}
	upgrade := decide.Decision{Action: model.ActionUpgrade}
	required := &addonsv1.Preflight{Images: addonsv1.ImagesPreflightRequired}
	for name, tc := range map[string]struct {
		preflight       *addonsv1.Preflight
		decision        decide.Decision
		registry        answering
		reason, message string
		events          int
	}{
		"found":         {required, upgrade, nil, "", "", 0},
		"missing":       {required, upgrade, answering{"oci://r.example/a:1": absent}, addonsv1.ImagesMissingReason, "1 image is not in the registry: r.example/a:1; push or mirror", 1},
		"silent":        {required, upgrade, answering{"oci://r.example/a:1": silent}, addonsv1.ImagesUnknownReason, "1 image could not be looked up: r.example/a:1: look up: ", 1},
		"both":          {required, upgrade, answering{"oci://r.example/a:1": silent, "oci://r.example/b:1": absent}, addonsv1.ImagesMissingReason, "r.example/b:1", 1},
		"not required":  {nil, upgrade, answering{"oci://r.example/a:1": absent}, "", "", 0},
		"ignored":       {&addonsv1.Preflight{Images: addonsv1.ImagesPreflightIgnored}, upgrade, answering{"oci://r.example/a:1": absent}, "", "", 0},
		"a remediation": {required, decide.Decision{Action: model.ActionRollback}, answering{"oci://r.example/a:1": absent}, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := events.NewFakeRecorder(5)
			engine := &renderingEngine{manifest: "kind: Pod\nspec: {containers: [{image: r.example/a:1}, {image: r.example/b:1}]}\n"}
			r := checkingReconciler(t, tc.registry, engine)
			r.recorder = recorder
			p := checkedPass(tc.decision, tc.preflight)
			release := p.release
			for range 2 {
				result, err, ok := checkBoth(t, r, p, tc.decision)
				if err != nil || ok != (tc.reason == "") || ok == (result.RequeueAfter > 0) {
					t.Fatalf("%v, %v, %v", result, err, ok)
				}
			}
			if reason := conditions.GetReason(release, addonsv1.ReleasedCondition); reason != tc.reason ||
				!strings.Contains(conditions.GetMessage(release, addonsv1.ReleasedCondition), tc.message) {
				t.Errorf("%s: %s", reason, conditions.GetMessage(release, addonsv1.ReleasedCondition))
			}
			if tc.reason != "" && engine.rendered != 1 {
				t.Errorf("rendered %d times while the release waits", engine.rendered)
			}
			if len(recorder.Events) < tc.events {
				t.Errorf("%d Events, want at least %d", len(recorder.Events), tc.events)
			}
		})
	}
}

// TestImagesOfHooks checks that a release does not wait for the images of hooks and tests that HelmOp does not run,
// also if HelmOp runs them no longer.
func TestImagesOfHooks(t *testing.T) {
	t.Parallel()
	disabled := model.Options{Install: model.InstallOptions{DisableHooks: true},
		Upgrade: model.UpgradeOptions{DisableHooks: true}}
	for name, tc := range map[string]struct {
		events    string
		options   model.Options
		runsTests bool
		waits     bool
	}{
		"a test":             {"test", model.Options{}, false, false},
		"a test that runs":   {"test", model.Options{}, true, true},
		"a hook":             {"pre-install,post-upgrade", model.Options{}, false, true},
		"hooks are disabled": {"pre-install,post-upgrade", disabled, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := checkingReconciler(t, absentImage, &renderingEngine{manifest: "kind: Pod\n", hooks: []string{
				"kind: Pod\nmetadata: {name: a, annotations: {helm.sh/hook: \"" + tc.events + "\"}}\n" +
					"spec: {containers: [{image: r.example/a:1}]}\n"}})
			p := checkedPass(upgrading, requiresAll)
			p.options, p.policy.Test.Enabled = tc.options, tc.runsTests
			if _, err, ok := checkBoth(t, r, p, upgrading); err != nil || ok == tc.waits {
				t.Errorf("%v, the release waits: %t", err, !ok)
			}
			if !tc.runsTests {
				return
			}
			p.policy.Test.Enabled = false
			if _, err, ok := checkBoth(t, r, p, upgrading); err != nil || !ok {
				t.Errorf("without tests: %v, the release waits: %t", err, !ok)
			}
		})
	}
}

// TestKeepsReportDuringLookup checks that a waiting release keeps its report while its images are looked up again.
func TestKeepsReportDuringLookup(t *testing.T) {
	t.Parallel()
	r := &Reconciler{recorder: events.NewFakeRecorder(5), budgets: report.NewEventBudgets(time.Now)}
	release := &addonsv1.HelmOpRelease{}
	p := &releasePass{releaseScope: &releaseScope{release: release, helmOp: &addonsv1.HelmOp{}}}
	for _, step := range []struct {
		outcome preflight.Outcome
		reason  string
	}{
		{preflight.Outcome{IsPending: true}, addonsv1.UpdatingReason},
		{preflight.Outcome{Missing: []string{"a"}}, addonsv1.ImagesMissingReason},
		{preflight.Outcome{IsPending: true}, addonsv1.ImagesMissingReason},
		{preflight.Outcome{Unknown: []string{"a"}, Err: errors.New("silent")}, addonsv1.ImagesUnknownReason},
		{preflight.Outcome{IsPending: true}, addonsv1.ImagesUnknownReason},
	} {
		r.reportImages(p, &step.outcome)
		if reason := conditions.GetReason(release, addonsv1.ReleasedCondition); reason != step.reason {
			t.Errorf("after %+v: %s, want %s", step.outcome, reason, step.reason)
		}
	}
}

const (
	onePod    = "kind: Pod\nspec: {containers: [{image: r.example/a:1}]}\n"
	secretPod = "kind: Pod\nspec: {containers: [{image: r.example/planted:1}]}\n"
)

var (
	requiresAll = &addonsv1.Preflight{Images: addonsv1.ImagesPreflightRequired}
	upgrading   = decide.Decision{Action: model.ActionUpgrade, FromRevision: 2}
	absentImage = answering{"oci://r.example/a:1": &ocierr.Error{Kind: ocierr.ErrNotFound}}
)

// TestFailedReleaseStaysFailed has a failed release whose next try waits for images. The release must stay failed, even
// if a user requested the try.
func TestFailedReleaseStaysFailed(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]preflight.Outcome{
		"pending": {IsPending: true}, "missing": {Missing: []string{"r.example/a:1"}},
		"unknown": {Unknown: []string{"r.example/a:1"}, Err: errors.New("silent")},
		"refused": {Refused: "it has more than 500 images"},
	} {
		for _, reported := range []string{addonsv1.UpgradeFailedReason, addonsv1.ImagesMissingReason} {
			r, p := checkingReconciler(t, nil, nil), checkedPass(upgrading, requiresAll)
			p.subject().Write(&p.release.Status, 3, metav1.Now())
			releasestatus.NotReleased(p.release, reported, "no room")
			r.reportImages(p, &outcome)
			released := conditions.Get(p.release, addonsv1.ReleasedCondition)
			if name != "pending" && (released.Reason != addonsv1.UpgradeFailedReason ||
				!strings.Contains(released.Message, "The next try waits for the images. The release is not changed")) ||
				name == "pending" && released.Reason != reported {
				t.Errorf("%s after %s: %s: %s", name, reported, released.Reason, released.Message)
			}
		}
	}
}

// TestHidesSecretsInImages has an image with a value from a Secret in its name. No report may contain the value, also
// not the report of a pass that finds the images missing again. The values are known only after they are rendered.
func TestHidesSecretsInImages(t *testing.T) {
	t.Parallel()
	const image = "oci://r.example/planted:1"
	for kind, says := range map[error]string{
		ocierr.ErrNotFound: "not in the registry", ocierr.ErrUnreachable: "could not be",
	} {
		recorder, engine := events.NewFakeRecorder(5), &renderingEngine{manifest: secretPod}
		r := checkingReconciler(t, answering{image: &ocierr.Error{Op: "look up", Subject: image, Kind: kind}}, engine)
		r.recorder = recorder
		for i := range 2 {
			p := checkedPass(upgrading, requiresAll)
			check, _, err, ok := r.recheckImages(t.Context(), p, upgrading)
			if !ok || err != nil || conditions.Has(p.release, addonsv1.ReleasedCondition) {
				t.Fatalf("pass %d, before the values are rendered: %t, %v, %+v", i, ok, err, p.release.Status.Conditions)
			}
			p.options.SecretValues = []any{map[string]any{"repository": "planted"}}
			result, err, ok := r.hasImages(t.Context(), p, upgrading, check, &releaseInputs{})
			if ok || err != nil || result.RequeueAfter == 0 || engine.rendered != 1 {
				t.Fatalf("pass %d: %+v, %v, %t, rendered %d times", i, result, err, ok, engine.rendered)
			}
			event := <-recorder.Events
			message := conditions.GetMessage(p.release, addonsv1.ReleasedCondition)
			if !strings.Contains(message, says) || strings.Contains(message+event, "planted") {
				t.Errorf("pass %d: %s, Event %s", i, message, event)
			}
		}
	}
}

// TestRecheckNeedsNoSlot checks that a release that waits for images renders neither its values nor its chart, and
// requests no slot.
func TestRecheckNeedsNoSlot(t *testing.T) {
	t.Parallel()
	b, engine := newActBench(t, "a: b"), &renderingEngine{manifest: onePod}
	b.HelmOp.Spec.Preflight = requiresAll
	b.r.images, b.r.engine = preflight.New(absentImage, 8), engine
	act := func() ctrl.Result {
		result, err := b.r.act(t.Context(), b.newPass(), upgrading)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	act()
	done := b.takeSlot()
	defer done()
	b.r.renderer, b.r.assigned = nil, assignedvalues.Renderer{}
	if result := act(); result.RequeueAfter == 0 || engine.rendered != 1 ||
		b.r.slots.IsWaiting(client.ObjectKeyFromObject(b.Release)) || !apiutil.WaitsForImages(b.Release) {
		t.Errorf("%v, rendered %d times, conditions %+v", result, engine.rendered, b.Release.Status.Conditions)
	}
}

// TestRenderingOfCheckIsAnnounced checks the first rendering of new values. It must be in the status while it runs, and
// must have a deadline. It must count as a failed attempt if it exceeds its limits.
func TestRenderingOfCheckIsAnnounced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want int32
	}{
		"found":              {nil, 0},
		"a template fails":   {errors.New("no key"), 0},
		"exceeds its limits": {&helmerr.Error{Kind: helmerr.ErrRenderLimit}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := &renderingEngine{manifest: onePod, err: tc.err}
			r := checkingReconciler(t, answering{}, engine)
			p := checkedPass(upgrading, requiresAll)
			p.desired.ValuesDigest = "new"
			r.client = controllertest.StoreOf(t, p.release)
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(p.release), p.release); err != nil {
				t.Fatal(err)
			}
			p.before = p.release.DeepCopy()
			engine.before = func(ctx context.Context) {
				stored := &addonsv1.HelmOpRelease{}
				if err := r.client.Get(ctx, client.ObjectKeyFromObject(p.release), stored); err != nil ||
					stored.Status.Preparation == nil || stored.Status.Failures != 0 {
					t.Errorf("while the rendering runs, the status is %+v, %v", stored.Status, err)
				}
				if at, ok := ctx.Deadline(); !ok || time.Until(at) > renderTimeout {
					t.Errorf("the deadline of the rendering is %v, %v", at, ok)
				}
			}
			if _, err, ok := checkBoth(t, r, p, upgrading); err != nil || ok != (tc.err == nil) {
				t.Fatal(ok, err)
			}
			if status := p.release.Status; status.Failures != tc.want || status.Preparation != nil {
				t.Errorf("got %+v, want %d failures", status, tc.want)
			}
			if isFirst := r.rendered.IsFirst(model.ActionUpgrade, &p.desired); isFirst != (tc.err != nil) {
				t.Errorf("the rendering is announced again: %t", isFirst)
			}
		})
	}
}
