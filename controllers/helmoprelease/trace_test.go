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

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/otlp"
)

// TestTraceOfSeveralPasses checks which spans passes export: one that waits for its chart, one whose chart cannot be
// pulled, one that waits for a slot, and one whose upgrade fails.
func TestTraceOfSeveralPasses(t *testing.T) {
	const secret = "the error has a password"
	collector := otlp.Start(t)
	tracer, err := tracing.New(t.Context(), tracing.Options{Endpoint: collector.URL, Ratio: 1, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	now := controllertest.Noon
	r := &Reconciler{tracer: tracer, now: func() time.Time { return now }}
	release := controllertest.ReadyRelease("calico", func(release *addonsv1.HelmOpRelease) { release.UID = "u" })
	pass := func(do func(p *releasePass)) {
		do(&releasePass{releaseScope: &releaseScope{release: release}})
		now = now.Add(time.Minute)
	}
	pass(func(p *releasePass) {
		r.traceStep(p, tracing.SpanRender, now)
		r.traceWait(p, tracing.SpanPull, now)
		releasestatus.NotReleased(release, addonsv1.FetchingArtifactReason, "")
		r.traceFailedInputs(p)
	})
	pass(func(p *releasePass) {
		r.traceStep(p, tracing.SpanRender, now)
		r.traceStep(p, tracing.SpanPull, now)
		releasestatus.NotReleased(release, addonsv1.ArtifactFetchFailedReason, secret)
		r.traceFailedInputs(p)
	})
	pass(func(p *releasePass) {
		r.traceStep(p, tracing.SpanPull, now)
		r.traceWait(p, tracing.SpanWaitForSlot, now)
	})
	pass(func(p *releasePass) {
		r.traceStep(p, tracing.SpanObserve, now)
		releasestatus.NotReleased(release, addonsv1.UpgradeFailedReason, secret)
		r.traceAction(p, decide.Decision{Action: model.ActionUpgrade}, now, now.Add(time.Second), errors.New(secret))
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Start(ctx); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, span := range collector.Spans() {
		got = append(got, fmt.Sprintf("%s %s+%s %s", span.Name, span.Began.Sub(controllertest.Noon),
			span.Ended.Sub(span.Began), span.Failure))
		for key, value := range span.Attributes {
			if value == secret {
				t.Errorf("the attribute %s has a message", key)
			}
		}
	}
	want := []string{
		"render 1m0s+0s ",
		"pull 0s+1m0s ArtifactFetchFailed",
		"observe 3m0s+0s ",
		"wait-for-slot 2m0s+1m0s ",
		"upgrade 3m0s+1s UpgradeFailed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
