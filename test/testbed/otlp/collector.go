// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package otlp is a collector of traces for tests. It serves OTLP by gRPC on the loopback interface.
package otlp

import (
	"context"
	"encoding/hex"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Span is a received span. IDs are hexadecimal; Parent is empty for a root.
type Span struct {
	Name, Trace, ID, Parent string
	Began, Ended            time.Time

	// Failure is the message of the status of a failed span.
	Failure string

	// Attributes are the attributes of the span and of its resource.
	Attributes map[string]string
}

// Collector holds the spans that it received. It is safe for concurrent use.
type Collector struct {
	collector.UnimplementedTraceServiceServer

	// URL is the endpoint for an exporter.
	URL string

	mu    sync.Mutex
	spans []Span
}

// Start starts a collector, which stops at the end of the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{URL: "http://" + listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := server.Serve(listener); err != nil {
			t.Errorf("the collector of traces failed: %v", err)
		}
	}()
	t.Cleanup(func() {
		server.Stop()
		<-stopped
	})
	return c
}

// Spans returns the received spans, in the order in which they arrived.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Export implements the service of OTLP.
func (c *Collector) Export(_ context.Context,
	request *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(span, resource.GetResource().GetAttributes()))
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func spanOf(span *trace.Span, resource []*common.KeyValue) Span {
	received := Span{
		Name: span.GetName(), Trace: hex.EncodeToString(span.GetTraceId()), ID: hex.EncodeToString(span.GetSpanId()),
		Parent: hex.EncodeToString(span.GetParentSpanId()), Attributes: map[string]string{},
		Began: time.Unix(0, int64(span.GetStartTimeUnixNano())).UTC(),
		Ended: time.Unix(0, int64(span.GetEndTimeUnixNano())).UTC(),
	}
	if status := span.GetStatus(); status.GetCode() == trace.Status_STATUS_CODE_ERROR {
		received.Failure = status.GetMessage()
	}
	for _, attribute := range append(resource, span.GetAttributes()...) {
		switch value := attribute.GetValue().GetValue().(type) {
		case *common.AnyValue_IntValue:
			received.Attributes[attribute.GetKey()] = strconv.FormatInt(value.IntValue, 10)
		case *common.AnyValue_StringValue:
			received.Attributes[attribute.GetKey()] = value.StringValue
		}
	}
	return received
}
