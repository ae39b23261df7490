// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/otlp"
)

func releaseWith(uid types.UID, revision int64) *addonsv1.HelmOpRelease {
	return controllertest.ReadyRelease("calico", func(r *addonsv1.HelmOpRelease) {
		r.UID = uid
		r.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: revision}
		r.Spec.Artifact.Version = "1.2.3"
	})
}

// export runs a function with a Tracer, and returns what a collector received. Each call has its own Tracer, as after a
// restart of the manager.
func export(t *testing.T, ratio float64, do func(*Tracer)) []otlp.Span {
	t.Helper()
	collector := otlp.Start(t)
	tracer, err := New(t.Context(), Options{Endpoint: collector.URL, Ratio: ratio, Version: "v0.1.0", Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	do(tracer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return collector.Spans()
}

// TestTrace checks that spans of two managers are in one trace, below its root.
func TestTrace(t *testing.T) {
	began, ended := controllertest.Noon, controllertest.Noon.Add(time.Minute)
	step := func(name, failure string) Span { return Span{Name: name, Began: began, Ended: ended, Failure: failure} }
	spans := export(t, 1, func(tracer *Tracer) { tracer.Of(releaseWith("a", 7)).Add(step("pull", "")) })
	spans = append(spans, export(t, 1, func(tracer *Tracer) {
		tracer.Of(releaseWith("a", 7)).Add(step("install", addonsv1.InstallFailedReason))
		tracer.Of(releaseWith("a", 7)).End(step("revision", ""))
		tracer.Of(releaseWith("a", 8)).Add(step("pull", ""))
		tracer.Of(releaseWith("b", 7)).Add(step("pull", ""))
	})...)
	if len(spans) != 5 {
		t.Fatalf("%d spans", len(spans))
	}
	root := spans[2]
	if root.Name != "revision" || root.Parent != "" || root.Began != began || root.Ended != ended {
		t.Errorf("the root is %+v", root)
	}
	for _, i := range []int{0, 1} {
		if spans[i].Trace != root.Trace || spans[i].Parent != root.ID || spans[i].ID == root.ID {
			t.Errorf("%+v is not in the trace of %+v", spans[i], root)
		}
	}
	if spans[0].Failure != "" || spans[1].Failure != addonsv1.InstallFailedReason {
		t.Errorf("failures %q and %q", spans[0].Failure, spans[1].Failure)
	}
	traces := []string{root.Trace, spans[3].Trace, spans[4].Trace}
	slices.Sort(traces)
	if len(slices.Compact(traces)) != 3 {
		t.Error("two revisions, or two releases, have the same trace")
	}
	for key, want := range map[string]string{
		"helmop.namespace": "n", "helmop.name": "calico", "helmop.cluster": "n/one", "helmop.revision": "7",
		"helmop.artifact.version": "1.2.3", "service.name": "helmop-manager",
	} {
		if got := root.Attributes[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// TestRatio checks that a part of the traces is exported, and that each exported trace is complete.
func TestRatio(t *testing.T) {
	const traces = 400
	spans := export(t, 0.25, func(tracer *Tracer) {
		for i := range traces {
			for range 2 {
				tracer.Of(releaseWith("a", int64(i))).Add(Span{Name: "pull", Began: time.Now(), Ended: time.Now()})
			}
		}
	})
	count := map[string]int{}
	for _, span := range spans {
		count[span.Trace]++
	}
	if len(count) < traces/8 || len(count) > traces/2 {
		t.Errorf("%d of %d traces were exported", len(count), traces)
	}
	for trace, n := range count {
		if n != 2 {
			t.Errorf("%d spans of trace %s were exported", n, trace)
		}
	}
}

// TestDisabled checks that a manager without an endpoint does nothing, and allocates nothing for it.
func TestDisabled(t *testing.T) {
	tracer, err := New(t.Context(), Options{Ratio: 1})
	if tracer != nil || err != nil {
		t.Fatalf("%v, %v", tracer, err)
	}
	release := releaseWith("a", 7)
	if n := testing.AllocsPerRun(100, func() {
		tracer.Of(release).Add(Span{Name: "pull"})
		tracer.Of(release).End(Span{Name: "revision"})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestUnreachableCollector(t *testing.T) {
	tracer, err := New(t.Context(), Options{Endpoint: "http://127.0.0.1:1", Ratio: 1, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 { // More than the queue holds.
		tracer.Of(releaseWith("a", 7)).Add(Span{Name: "pull", Began: time.Now(), Ended: time.Now()})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Start(ctx); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		endpoint string
		ratio    float64
		valid    bool
	}{
		{"", 1, true},
		{"http://collector:4317", 0, true},
		{"https://collector.example", 0.5, true},
		{"collector:4317", 1, false},
		{"unix:///run/collector", 1, false},
		{"http://", 1, false},
		{"", 1.5, false},
		{"", -1, false},
	} {
		options := Options{Endpoint: tc.endpoint, Ratio: tc.ratio}
		if err := options.Validate(); (err == nil) != tc.valid {
			t.Errorf("%q, %v: %v", tc.endpoint, tc.ratio, err)
		}
	}
}
