// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// filled returns a JSON text with a given size. It contains as many copies of value as possible.
func filled(before, value, after string, size int) []byte {
	n := (size - len(before) - len(after)) / (len(value) + 1)
	return []byte(before + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + after)
}

// allocated returns the total memory that f allocates. A test with allocated must not run in parallel.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileJSONMemoryIsLimited(t *testing.T) { //nolint:paralleltest // it measures memory
	const limit = 24 << 20 // without limits, each case needs several hundred MiB
	config := fmt.Sprintf(`{"schemaVersion":2,"config":{"digest":%q,"size":2},`, someDigest)
	layers, annotations := filled(config+`"layers":[`, "{}", "]}", endpoint.MaxMetadata),
		filled(config+`"annotations":{`, `"":""`, "}}", endpoint.MaxMetadata)
	index, tags := filled(`{"manifests":[`, "{}", "]}", endpoint.MaxMetadata), filled(`{"tags":[`, `""`, "]}", maxTagPageBytes)

	r := newRegistry(t)
	subject := r.push("1.0.0", "1.0.0", []byte("x"))
	r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		body := index
		if transport.KindOf(req) == transport.RequestTags {
			body = tags
		}
		_, _ = w.Write(body)
		return true
	})
	c := newClient(t)
	for name, read := range map[string]func() error{
		"layers":      func() error { _, err := parseManifest("x", someDigest, layers); return err },
		"annotations": func() error { _, err := parseManifest("x", someDigest, annotations); return err },
		"referrers":   func() error { _, _, err := c.Referrers(t.Context(), r.url(), subject, r.access(), 10); return err },
		"tags":        func() error { _, err := c.Resolve(t.Context(), r.source(Reference{Semver: "*"})); return err },
	} {
		var err error
		if took := allocated(func() { err = read() }); took > limit {
			t.Errorf("%s: %d MiB", name, took>>20)
		}
		if !errors.Is(err, ocierr.ErrTooLarge) {
			t.Errorf("%s: error = %v, want ErrTooLarge", name, err)
		}
	}
}

func TestTooManyLayers(t *testing.T) {
	t.Parallel()
	layer := fmt.Sprintf(`{"digest":%q,"size":1}`, someDigest)
	for n, want := range map[int]error{maxLayers: nil, maxLayers + 1: ocierr.ErrTooLarge} {
		layers := strings.TrimSuffix(strings.Repeat(layer+",", n), ",")
		text := fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers":[%s]}`, layer, layers)
		if _, err := parseManifest("x", someDigest, []byte(text)); !errors.Is(err, want) {
			t.Errorf("%d layers: error = %v, want %v", n, err, want)
		}
	}
}
