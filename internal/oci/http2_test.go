// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// newHTTP2Registry returns a registry with HTTP/2. Most registries have HTTP/2.
func newHTTP2Registry(t *testing.T) *fakeRegistry {
	r := &fakeRegistry{t: t, manifests: map[string][]byte{}, blobs: map[string][]byte{}, counts: map[string]int{}}
	r.srv = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.srv.EnableHTTP2 = true
	r.srv.StartTLS()
	t.Cleanup(r.srv.Close)
	return r
}

// TestBrokenOffHTTP2BodyIsIntegrityError checks that a request is repeated once if its connection breaks within a body.
// After the second failure, the error is ErrIntegrity, as with HTTP/1.
func TestBrokenOffHTTP2BodyIsIntegrityError(t *testing.T) {
	t.Parallel()
	r := newHTTP2Registry(t)
	digest := r.push("1.0.0", "1.0.0", make([]byte, 1<<20))
	r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		if req.ProtoMajor != 2 {
			t.Errorf("%s was asked for by %s", req.URL.Path, req.Proto)
		}
		if transport.KindOf(req) != transport.RequestBlob {
			return false
		}
		w.Header().Set("Content-Length", "1048576")
		_, _ = w.Write(make([]byte, 1000)) // the test checks only the client
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	c := newClient(t)
	content, err := c.Fetch(t.Context(), r.url(), digest, r.access())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = content.ReadLayer(t.Context(), content.Layers[0]); !errors.Is(err, ocierr.ErrIntegrity) {
		t.Errorf("error = %v, want %v", err, ocierr.ErrIntegrity)
	}
	if n := r.count("GET blob"); n != blobAttempts {
		t.Errorf("asked for %d times, want %d", n, blobAttempts)
	}
}
