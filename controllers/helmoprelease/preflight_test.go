// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// renderingEngine is an Engine that only renders.
type renderingEngine struct {
	Engine
	manifest string
	rendered int
}

func (e *renderingEngine) Render(context.Context, model.Target, model.Desired, model.Options, *bundle.Chart,
	map[string]any,
) (helmclient.DryRun, error) {
	e.rendered++
	return helmclient.DryRun{Manifest: e.manifest}, nil
}

// answering is a registry that has each image, or an error for it.
type answering map[string]error

func (a answering) Head(_ context.Context, url, reference string, _ oci.Access) (string, error) {
	return "sha256:1", a[url+":"+reference]
}

// TestHasImages checks which images and decisions let a release be changed, and what is reported otherwise.
func TestHasImages(t *testing.T) {
	t.Parallel()
	absent, silent := &oci.Error{Kind: oci.ErrNotFound}, &oci.Error{Op: "look up", Kind: oci.ErrUnreachable}
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
			c := controllertest.StoreOf(t)
			r := &Reconciler{images: preflight.New(tc.registry, 8), engine: engine, recorder: recorder,
				references: references.NewReader(c, c), budgets: report.NewEventBudgets(time.Now)}
			helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{URL: "oci://r.example/charts/a"})
			helmOp.Spec.Preflight = tc.preflight
			release := &addonsv1.HelmOpRelease{}
			p := &releasePass{releaseScope: &releaseScope{release: release, helmOp: helmOp}}
			for range 2 {
				result, err, ok := r.hasImages(t.Context(), p, tc.decision, &releaseInputs{})
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

// TestKeepsReportDuringLookup keeps the report of a release that waits while its images are looked up again.
func TestKeepsReportDuringLookup(t *testing.T) {
	t.Parallel()
	r := &Reconciler{recorder: events.NewFakeRecorder(5), budgets: report.NewEventBudgets(time.Now)}
	release := &addonsv1.HelmOpRelease{}
	p := &releasePass{releaseScope: &releaseScope{release: release}}
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
