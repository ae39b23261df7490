// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tracing exports traces by OTLP. A trace contains the steps for one release and one HelmOp revision. Its ID is
// a function of the UID of the HelmOpRelease and the number of the HelmOp revision. So the passes of all controllers
// add to the same trace, even after a restart of the manager. Callers add a span when its step has ended. A slow or
// missing collector never blocks a caller: spans that do not fit into the queue are dropped.
//
// Spans contain names, digests and reasons of conditions. They contain no messages, because a message can contain
// values. A nil *Tracer and a nil *Trace do nothing.
package tracing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// shutdownTimeout limits the export of the last spans when the manager stops.
const shutdownTimeout = 5 * time.Second

// Options configure a Tracer.
type Options struct {
	// Endpoint is the URL of the collector, which must serve OTLP by gRPC: http://HOST:PORT without TLS, or
	// https://HOST:PORT. Empty disables tracing.
	Endpoint string

	// Ratio is the part of the traces that is exported, from 0 to 1.
	Ratio float64

	// Version is the version of the manager.
	Version string

	Log logr.Logger
}

// Validate returns an error if an option is invalid.
func (o *Options) Validate() error {
	if o.Endpoint != "" {
		endpoint, err := url.Parse(o.Endpoint)
		if err != nil || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "" {
			return fmt.Errorf("the endpoint %q is not a URL such as http://HOST:4317 or https://HOST:4317", o.Endpoint)
		}
	}
	if !(o.Ratio >= 0 && o.Ratio <= 1) {
		return fmt.Errorf("the ratio %v is not between 0 and 1", o.Ratio)
	}
	return nil
}

// Tracer exports traces. It is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sdktrace.Sampler
}

// New returns a Tracer; nil if tracing is disabled. It does not wait for a connection. Errors of the export are logged.
func New(ctx context.Context, options Options) (*Tracer, error) {
	if options.Endpoint == "" {
		return nil, nil
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(options.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("setting up the export of traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		options.Log.Info("Cannot export traces; some spans are lost", "error", err.Error())
	}))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // Of samples the traces, by the same rule for all spans of a trace.
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "helmop-manager"), attribute.String("service.version", options.Version))),
	)
	return &Tracer{
		provider: provider, tracer: provider.Tracer("github.com/helmop/cluster-api-addon-provider-helmop"),
		sampler: sdktrace.TraceIDRatioBased(options.Ratio),
	}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (t *Tracer) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it waits for the end of ctx, and then exports the last spans.
func (t *Tracer) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err) // The manager must not end with an error because of its traces.
	}
	return nil
}

// Trace is the trace of a HelmOp revision in a Cluster.
type Trace struct {
	tracer     trace.Tracer
	root       trace.SpanContext
	attributes []attribute.KeyValue
}

// Of returns the trace of the HelmOp revision that is assigned to a release; nil if the trace is not exported.
func (t *Tracer) Of(release *addonsv1.HelmOpRelease) *Trace {
	if t == nil || release.UID == "" || release.Spec.Rollout == nil {
		return nil
	}
	revision := release.Spec.Rollout.Revision
	digest := sha256.Sum256([]byte(string(release.UID) + "/" + strconv.FormatInt(revision, 10)))
	config := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled, Remote: true}
	copy(config.TraceID[:], digest[:])
	copy(config.SpanID[:], digest[len(config.TraceID):])
	sampled := t.sampler.ShouldSample(sdktrace.SamplingParameters{TraceID: config.TraceID})
	if sampled.Decision != sdktrace.RecordAndSample {
		return nil
	}
	return &Trace{
		tracer: t.tracer, root: trace.NewSpanContext(config),
		attributes: []attribute.KeyValue{
			attribute.String("helmop.namespace", release.Namespace),
			attribute.String("helmop.name", release.Labels[addonsv1.HelmOpNameLabel]),
			attribute.String("helmop.cluster", apiutil.ClusterKey(release).String()),
			attribute.Int64("helmop.revision", revision),
			attribute.String("helmop.release", release.Spec.Release.Namespace+"/"+release.Spec.Release.Name),
			attribute.String("helmop.artifact.digest", release.Spec.Artifact.Digest),
			attribute.String("helmop.artifact.version", release.Spec.Artifact.Version),
		},
	}
}

// Span is a step that has ended.
type Span struct {
	// Name is one of the names of spans.
	Name         string
	Began, Ended time.Time

	// Failure is the reason of a condition; empty if the step succeeded.
	Failure string
}

// Add adds spans to the trace.
func (t *Trace) Add(spans ...Span) {
	if t == nil {
		return
	}
	for _, span := range spans {
		t.export(trace.ContextWithRemoteSpanContext(context.Background(), t.root), span)
	}
}

// End adds the root span, which is the parent of all others: it lasts from the assignment of the HelmOp revision until
// the release is Ready.
func (t *Trace) End(span Span) {
	if t != nil {
		t.export(context.WithValue(context.Background(), rootKey{}, t.root), span)
	}
}

func (t *Trace) export(ctx context.Context, span Span) {
	_, exported := t.tracer.Start(ctx, span.Name, trace.WithTimestamp(span.Began), trace.WithAttributes(t.attributes...))
	if span.Failure != "" {
		exported.SetStatus(codes.Error, span.Failure)
	}
	exported.End(trace.WithTimestamp(span.Ended))
}

// rootKey is the key of the root span in a context.
type rootKey struct{}

// ids generates the IDs of spans. The ID of a root span comes from the context; all others are random.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	// Only End begins a trace.
	root, _ := ctx.Value(rootKey{}).(trace.SpanContext)
	return root.TraceID(), root.SpanID()
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		random := rand.Uint64()
		for i := range id {
			id[i] = byte(random >> (8 * i))
		}
	}
	return id
}
