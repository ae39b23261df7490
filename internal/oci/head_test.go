// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// TestHead checks that Head finds an artifact and an index, by tag and by digest, with one request each.
func TestHead(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	chart := r.push("1.0.0", "1.0.0", []byte("layer"))
	index := r.pushManifest("many", ocispec.Index{MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{{Digest: digest.Digest(chart), Size: 1}}})
	c := newClient(t)
	for reference, want := range map[string]string{"1.0.0": chart, chart: chart, "many": index, index: index} {
		got, err := c.Head(t.Context(), r.url(), reference, r.access())
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", reference, got, err, want)
		}
		r.wantRequests(map[string]int{"HEAD manifest": 1})
	}
}

// TestHeadMissing checks that a missing image has another error than a registry that does not answer correctly.
func TestHeadMissing(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.allowMissing = true
	c := newClient(t)
	if _, err := c.Head(t.Context(), r.url(), "1.0.0", r.access()); !errors.Is(err, ocierr.ErrNotFound) {
		t.Errorf("%v, want %v", err, ocierr.ErrNotFound)
	}
	if _, err := c.Head(t.Context(), r.url(), "a b", r.access()); !errors.Is(err, ocierr.ErrInvalidReference) {
		t.Errorf("%v, want %v", err, ocierr.ErrInvalidReference)
	}
	for status, want := range map[int]error{
		http.StatusForbidden: ocierr.ErrUnauthorized, http.StatusBadGateway: ocierr.ErrUnreachable,
	} {
		r.setIntercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			return true
		})
		_, err := c.Head(t.Context(), r.url(), "1.0.0", r.access())
		if !errors.Is(err, want) || errors.Is(err, ocierr.ErrNotFound) {
			t.Errorf("status %d: %v, want %v", status, err, want)
		}
	}
}

// TestHeadRefused checks that Head uses GET if the registry refuses HEAD, also for an index.
func TestHeadRefused(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	want := r.pushManifest("many", ocispec.Index{MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{{Digest: digest.FromString("one"), Size: 1}}})
	r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		isHead := req.Method == http.MethodHead && strings.Contains(req.URL.Path, "/manifests/")
		if isHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
		return isHead
	})
	if got, err := newClient(t).Head(t.Context(), r.url(), "many", r.access()); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
