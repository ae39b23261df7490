// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
	payloadregistry "github.com/helmop/cluster-api-addon-provider-helmop/internal/payload/registry"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// traffic counts requests and bytes.
type traffic struct{ requests, bytes atomic.Int64 }

func (c *traffic) wrap(base http.RoundTripper) http.RoundTripper {
	return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
		c.requests.Add(1)
		c.bytes.Add(max(0, req.ContentLength))
		resp, err := base.RoundTrip(req)
		if err == nil {
			resp.Body = &countedBody{ReadCloser: resp.Body, bytes: &c.bytes}
		}
		return resp, err
	})
}

func (c *traffic) take() (requests, bytes float64) {
	return float64(c.requests.Swap(0)), float64(c.bytes.Swap(0))
}

type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

// BenchmarkStorage installs and upgrades releases with records of several sizes in each storage. It uses a real API
// server and a real registry, and measures the costs. The figures are in docs/measurements.md.
func BenchmarkStorage(b *testing.B) {
	sharedServer.Server(b)
	store, kept := benchRegistry(b)
	charts := map[string]*chart.Chart{
		"a small record":     helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()),
		"a record of 0.9 MB": bigChart("1.0.0", 850<<10, 1000),
		"a record of 3 MB":   bigChart("1.0.0", 4100<<10, 10),
	}
	for _, size := range []string{"a small record", "a record of 0.9 MB", "a record of 3 MB"} {
		for _, where := range []string{"one Secret", "parts", "registry"} {
			stored := map[string]model.Storage{"one Secret": {}, "parts": {SplitAll: true},
				"registry": {Store: store, Outside: true}}[where]
			if size == "a record of 3 MB" && where == "one Secret" {
				continue
			}
			b.Run(size+"/"+where, func(b *testing.B) { benchStorage(b, charts[size], stored, kept) })
		}
	}
}

// benchRegistry starts a registry and returns a store of payloads in it, and its traffic.
func benchRegistry(b *testing.B) (payload.Store, *registry.Registry) {
	b.Helper()
	programs, err := binaries.Ensure(b.Context(), binaries.Options{})
	if err != nil {
		b.Fatal(err)
	}
	r, err := registry.Start(b.Context(), registry.Options{Dir: b.TempDir(), Binaries: programs})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Stop(context.Background()) })
	client, err := oci.New(oci.Options{Dir: b.TempDir(), RequestsPerSecond: 1000})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	config, err := r.DockerConfigJSON()
	if err != nil {
		b.Fatal(err)
	}
	repository := payloadregistry.Repository{URL: "oci://" + r.Host() + "/records",
		Access: func(context.Context) (oci.Access, error) {
			return oci.Access{CA: r.CA(), DockerConfigs: [][]byte{config}}, nil
		}}
	return payloadregistry.New(client).Store(payloadregistry.Options{Cluster: "default/bench", New: &repository}), r
}

func benchStorage(b *testing.B, chrt *chart.Chart, stored model.Storage, kept *registry.Registry) {
	counted := &traffic{}
	config := sharedServer.Server(b).RESTConfig()
	config.WrapTransport = counted.wrap
	prefix := fmt.Sprintf("bench-%d", benches.Add(1))
	client := New(testRunner)
	sums := map[string]float64{}
	measure := func(verb string, do func() error) {
		counted.take()
		kept.ResetCounts()
		begun := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		sums["ms/"+verb] += float64(time.Since(begun).Microseconds()) / 1000
		requests, bytes := counted.take()
		sums["cluster-requests/"+verb] += requests
		sums["cluster-KiB/"+verb] += bytes / 1024
		counts := kept.Counts()
		sums["registry-requests/"+verb] += float64(counts.Total() - counts.Refused)
	}
	rounds := 0.0
	for b.Loop() {
		namespace := fmt.Sprintf("%s-%d", prefix, int(rounds))
		run := &releaseRun{
			client: client, target: model.Target{Key: prefix, Config: config, Storage: stored},
			desired: helmtest.DesiredFor(namespace, "demo", "a1", "v1"), chart: chrt, values: map[string]any{"cidr": "1"},
		}
		act := func() error { return run.settle(b.Context()) }
		measure("install", act)
		run.desired.ValuesDigest, run.values = "v2", map[string]any{"cidr": "2"}
		measure("upgrade", act)
		b.StopTimer()
		if err := run.settleUninstall(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if rounds == 0 {
			// The chart is packed and the connections are open.
			clear(sums)
		}
		rounds++
	}
	for name, sum := range sums {
		if rounds > 1 && (sum > 0 || !strings.HasPrefix(name, "registry")) {
			b.ReportMetric(sum/(rounds-1), name)
		}
	}
	b.ReportMetric(0, "ns/op")
}
