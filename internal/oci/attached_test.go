// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// serveReferrers makes the registry return n referrers in pages. If answer is not nil, it handles the requests for
// referrers instead.
func (r *fakeRegistry) serveReferrers(n, pageSize int, answer http.HandlerFunc) {
	r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.Contains(req.URL.Path, "/referrers/") {
			return false
		}
		if answer != nil {
			answer(w, req)
			return true
		}
		start, _ := strconv.Atoi(req.URL.Query().Get("from"))
		end := min(start+pageSize, n)
		if end < n {
			w.Header().Set("Link", fmt.Sprintf(`<%s?from=%d>; rel="next"`, req.URL.Path, end))
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_ = json.NewEncoder(w).Encode(referrersIndex(start, end))
		return true
	})
}

// keepReferrers adds a list of three referrers under the referrers tag of the subject.
func (r *fakeRegistry) keepReferrers(subject string, answer http.HandlerFunc) {
	list, err := json.Marshal(referrersIndex(0, 3))
	if err != nil {
		r.t.Fatal(err)
	}
	r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		switch {
		case strings.Contains(req.URL.Path, "/referrers/"):
			answer(w, req)
		case strings.HasSuffix(req.URL.Path, "/manifests/"+strings.Replace(subject, ":", "-", 1)):
			w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
			w.Header().Set("Docker-Content-Digest", digest.FromBytes(list).String())
			_, _ = w.Write(list)
		default:
			return false
		}
		return true
	})
}

func referrersIndex(start, end int) ocispec.Index {
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	for i := start; i < end; i++ {
		index.Manifests = append(index.Manifests, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest,
			Digest: "sha256:" + ocispec.DescriptorEmptyJSON.Digest[len("sha256:"):], Size: 2, ArtifactType: fmt.Sprint(i),
			Annotations: map[string]string{"n": fmt.Sprint(i)}})
	}
	return index
}

func typesOf(list []Referrer) (types []string) {
	for _, r := range list {
		types = append(types, r.ArtifactType)
	}
	return types
}

func TestReferrersByAPI(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	subject := r.push("1.0.0", "1.0.0", []byte("x"))
	c := newClient(t)
	for _, tc := range []struct {
		n, pageSize, limit int
		want               int
		more               bool
		requests           int
	}{
		{n: 0, pageSize: 10, limit: 10, requests: 1},
		{n: 10, pageSize: 10, limit: 10, want: 10, requests: 1},
		{n: 11, pageSize: 5, limit: 20, want: 11, requests: 3},
		{n: 100, pageSize: 5, limit: 7, want: 7, more: true, requests: 2},
	} {
		r.serveReferrers(tc.n, tc.pageSize, nil)
		list, more, err := c.Referrers(t.Context(), r.url(), subject, r.access(), tc.limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != tc.want || more != tc.more {
			t.Errorf("%+v: %d referrers, more %v", tc, len(list), more)
		}
		for i, referrer := range list {
			if referrer.ArtifactType != fmt.Sprint(i) || referrer.Annotations["n"] != fmt.Sprint(i) || referrer.Digest == "" {
				t.Errorf("%+v: referrer %d is %+v", tc, i, referrer)
			}
		}
		r.wantRequests(map[string]int{"GET referrers": tc.requests})
	}
}

// TestReferrersByTag checks that the list under the referrers tag is read if the registry does not have the API.
// Registries refuse the API in several ways.
func TestReferrersByTag(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"404":              status(http.StatusNotFound, "404 page not found"),
		"404 NAME_UNKNOWN": status(http.StatusNotFound, `{"errors":[{"code":"NAME_UNKNOWN"}]}`),
		"400":              status(http.StatusBadRequest, ""),
		"405":              status(http.StatusMethodNotAllowed, ""),
		"406":              status(http.StatusNotAcceptable, ""),
		"501":              status(http.StatusNotImplemented, ""),
		"a page":           status(http.StatusOK, "<html>planted-page</html>"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.allowMissing = true
			subject := r.push("1.0.0", "1.0.0", []byte("x"))
			r.serveReferrers(0, 0, answer)
			c := newClient(t)
			list, more, err := c.Referrers(t.Context(), r.url(), subject, r.access(), 10)
			if err != nil || len(list) > 0 || more {
				t.Errorf("without a list: %v, %v, %v", list, more, err)
			}
			r.keepReferrers(subject, answer)
			list, more, err = c.Referrers(t.Context(), r.url(), subject, r.access(), 2)
			if err != nil || !slices.Equal(typesOf(list), []string{"0", "1"}) || !more {
				t.Errorf("with a list: %v, %v, %v", list, more, err)
			}
		})
	}
}

// TestReferrersBreakOff checks that Referrers does not read the referrers tag after the API sent an incomplete list.
// The result would contain the first referrers twice.
func TestReferrersBreakOff(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.allowMissing = true
	subject := r.push("1.0.0", "1.0.0", []byte("x"))
	r.keepReferrers(subject, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("from") != "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Link", fmt.Sprintf(`<%s?from=2>; rel="next"`, req.URL.Path))
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_ = json.NewEncoder(w).Encode(referrersIndex(0, 2))
	})
	list, _, err := newClient(t).Referrers(t.Context(), r.url(), subject, r.access(), 10)
	if err == nil {
		t.Errorf("referrers = %v, want an error", list)
	}
}

func TestReferrersFail(t *testing.T) {
	t.Parallel()
	index := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_, _ = w.Write([]byte(body))
	}
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		kind   error
	}{
		{name: "forbidden", kind: ocierr.ErrUnauthorized,
			answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }},
		{name: "trouble", kind: ocierr.ErrUnreachable,
			answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }},
		{name: "too large", kind: ocierr.ErrTooLarge, answer: func(w http.ResponseWriter, _ *http.Request) {
			index(w, `{"manifests":[],"x":"`+strings.Repeat("planted-", endpoint.MaxMetadata/8)+`"}`)
		}},
		{name: "not JSON", kind: ocierr.ErrUnexpected,
			answer: func(w http.ResponseWriter, _ *http.Request) { index(w, "planted-text") }},
		{name: "without end", kind: ocierr.ErrTooLarge, answer: func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, req.URL.Path))
			index(w, `{"manifests":[]}`)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			subject := r.push("1.0.0", "1.0.0", []byte("x"))
			r.serveReferrers(0, 0, tc.answer)
			_, _, err := newClient(t).Referrers(t.Context(), r.url(), subject, r.access(), 10)
			if !errors.Is(err, tc.kind) {
				t.Fatalf("error = %v, want %v", err, tc.kind)
			}
			noSecrets(t, err)
			if n := r.count("GET referrers"); n > maxReferrerPages {
				t.Errorf("%d requests", n)
			}
		})
	}
	for _, dgst := range []string{"", "latest", "sha256:0"} {
		if _, _, err := newClient(t).Referrers(t.Context(), "oci://127.0.0.1:1/x", dgst, Access{}, 1); !errors.Is(err,
			ocierr.ErrInvalidReference) {
			t.Errorf("%q: error = %v", dgst, err)
		}
	}
}

func TestFetchTag(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	dgst := r.push("sha256-0.sig", "1.0.0", []byte("signature"))
	c := newClient(t)
	content, err := c.FetchTag(t.Context(), r.url(), "sha256-0.sig", r.access())
	if err != nil {
		t.Fatal(err)
	}
	if content.Digest != dgst {
		t.Errorf("digest = %s, want %s", content.Digest, dgst)
	}
	r.wantRequests(map[string]int{"GET manifest": 1})
	if _, err := content.ReadSmallLayer(t.Context(), content.Layers[0], 8); !errors.Is(err, ocierr.ErrTooLarge) {
		t.Errorf("error = %v, want ErrTooLarge", err)
	}
	r.wantRequests(map[string]int{})
	if data, err := content.ReadSmallLayer(t.Context(), content.Layers[0], 9); err != nil || string(data) != "signature" {
		t.Errorf("layer = %q, %v", data, err)
	}
	if mediaType, data, err := c.RawManifest(t.Context(), r.url(), dgst, Access{}); err != nil ||
		mediaType != ocispec.MediaTypeImageManifest || !json.Valid(data) {
		t.Errorf("manifest = %q, %q, %v", mediaType, data, err)
	}
	r.wantRequests(map[string]int{"GET blob": 1})

	r.allowMissing = true
	if _, err := c.FetchTag(t.Context(), r.url(), "none", r.access()); !errors.Is(err, ocierr.ErrNotFound) {
		t.Errorf("error = %v, want ErrNotFound", err)
	}
	if _, _, err := c.RawManifest(t.Context(), r.url(), strings.Replace(dgst, dgst[10:20], "0000000000", 1),
		r.access()); !errors.Is(err, ocierr.ErrNotFound) {
		t.Errorf("error = %v, want ErrNotFound", err)
	}
	for _, tag := range []string{"", "a/b", "a@b", strings.Repeat("a", 129)} {
		if _, err := c.FetchTag(t.Context(), r.url(), tag, r.access()); !errors.Is(err, ocierr.ErrInvalidReference) {
			t.Errorf("%q: error = %v, want ErrInvalidReference", tag, err)
		}
	}
	if _, err := c.FetchTag(t.Context(), "https://x", "a", r.access()); !errors.Is(err, ocierr.ErrInvalidReference) {
		t.Errorf("error = %v, want ErrInvalidReference", err)
	}
}
