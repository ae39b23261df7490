// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/otlp"
)

// traced calls a function with a tracer and returns the exported spans. texts has a text for each span: the name, the
// time from since to the start, the duration and the failure.
func traced(t *testing.T, since time.Time, do func(*tracing.Tracer)) (texts []string, spans []otlp.Span) {
	t.Helper()
	collector := otlp.Start(t)
	tracer, err := tracing.New(t.Context(), tracing.Options{Endpoint: collector.URL, Ratio: 1, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	do(tracer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Start(ctx); err != nil {
		t.Fatal(err)
	}
	spans = collector.Spans()
	for _, span := range spans {
		texts = append(texts, fmt.Sprintf("%s %s+%s %s", span.Name, span.Began.Sub(since), span.Ended.Sub(span.Began),
			span.Failure))
	}
	return texts, spans
}

// TestTraceOfSeveralPasses checks the spans of four passes. The first waits for its chart. The second cannot pull its
// chart. The third waits for a slot, and the upgrade of the fourth fails.
func TestTraceOfSeveralPasses(t *testing.T) {
	const secret = "the error has a password"
	now := controllertest.Noon
	r := &Reconciler{now: func() time.Time { return now }}
	release := controllertest.ReadyRelease("calico", func(release *addonsv1.HelmOpRelease) { release.UID = "u" })
	pass := func(do func(p *releasePass)) {
		trace := r.tracer.PassOver(release, func() *tracing.Memory { return &r.memoryOf(release).Trace }, r.now)
		do(&releasePass{releaseScope: &releaseScope{release: release, trace: trace}})
		now = now.Add(time.Minute)
	}
	got, spans := traced(t, now, func(tracer *tracing.Tracer) {
		r.tracer = tracer
		pass(func(p *releasePass) {
			p.trace.Wait(tracing.SpanPull, now)
			releasestatus.NotReleased(release, addonsv1.FetchingArtifactReason, "")
			p.trace.FailedInputs(conditions.GetReason(release, addonsv1.ReleasedCondition))
		})
		pass(func(p *releasePass) {
			p.trace.Step(tracing.SpanPull, now)
			releasestatus.NotReleased(release, addonsv1.ArtifactFetchFailedReason, secret)
			p.trace.FailedInputs(conditions.GetReason(release, addonsv1.ReleasedCondition))
		})
		pass(func(p *releasePass) {
			p.trace.Step(tracing.SpanPull, now)
			p.trace.Wait(tracing.SpanWaitForSlot, now)
		})
		pass(func(p *releasePass) {
			p.trace.Step(tracing.SpanObserve, now)
			p.trace.EndWait(tracing.SpanWaitForSlot)
			p.trace.Step(tracing.SpanRender, now)
			releasestatus.NotReleased(release, addonsv1.UpgradeFailedReason, secret)
			p.traceAction(decide.Decision{Action: model.ActionUpgrade}, now, now.Add(time.Second), errors.New(secret))
		})
	})
	for _, span := range spans {
		for key, value := range span.Attributes {
			if value == secret {
				t.Errorf("the attribute %s has a message", key)
			}
		}
	}
	want := []string{
		"pull 0s+1m0s ArtifactFetchFailed",
		"observe 3m0s+0s ",
		"wait-for-slot 2m0s+1m0s ",
		"render 3m0s+0s ",
		"upgrade 3m0s+1s UpgradeFailed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTraceOfHealth checks that the wait for the health of a new Helm revision is exported once, followed by the root.
func TestTraceOfHealth(t *testing.T) {
	b := newHealthBench(t)
	b.release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 7, At: metav1.NewTime(b.now.Add(-time.Minute))}
	b.release.Status.ObservedGeneration = b.release.Generation
	pass := func(after time.Duration, status metav1.ConditionStatus, reason string) {
		before := b.release.DeepCopy()
		trace := b.r.tracer.PassOver(b.release, func() *tracing.Memory { return &b.r.memoryOf(b.release).Trace }, b.r.now)
		b.pass(after, status, reason)
		trace.Progress(before, b.release, b.now)
	}
	got, _ := traced(t, b.now, func(tracer *tracing.Tracer) {
		b.r.tracer = tracer
		b.deploy(nil)
		pass(time.Second, metav1Unknown, addonsv1.HealthProgressingReason)
		b.is(controllertest.Deployment, health.Current)
		pass(30*time.Second, report.True, addonsv1.HealthyReason)
		pass(time.Hour, report.True, addonsv1.HealthyReason)
		b.is(controllertest.Deployment, health.Failed)
		pass(time.Hour, report.False, addonsv1.HealthFailedReason)
		b.is(controllertest.Deployment, health.Current)
		pass(time.Hour, report.True, addonsv1.HealthyReason)
	})
	if want := []string{"wait-for-health 0s+31s ", "revision -1m0s+1m31s "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
