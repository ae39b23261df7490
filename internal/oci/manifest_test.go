// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

func TestResolveFallsBackToGet(t *testing.T) {
	t.Parallel()
	answer := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(status) }
	}
	header := func(name, value string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Content-Length", "100")
			w.Header().Set("Docker-Content-Digest", someDigest)
			w.Header().Set(name, value)
		}
	}
	for name, head := range map[string]func(http.ResponseWriter){
		"405": answer(http.StatusMethodNotAllowed), "400": answer(http.StatusBadRequest),
		"501": answer(http.StatusNotImplemented),
		"403": answer(http.StatusForbidden), "404": answer(http.StatusNotFound),
		"200 without anything": answer(http.StatusOK),
		"no digest":            header("Docker-Content-Digest", ""),
		"odd digest":           header("Docker-Content-Digest", "md5:planted"),
		"odd type":             header("Content-Type", "////"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			dgst := r.push("1.0.0", "1.0.0", []byte("x"))
			r.intercept = func(w http.ResponseWriter, req *http.Request) bool {
				if req.Method == http.MethodHead {
					head(w)
				}
				return req.Method == http.MethodHead
			}
			got, err := newClient(t).Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
			if err != nil || got.Digest != dgst {
				t.Errorf("artifact = %+v, %v", got, err)
			}
			r.wantRequests(map[string]int{"HEAD manifest": 1, "GET manifest": 1})
		})
	}
}

// TestResolveDoesNotFallBack checks that a conclusive response is not requested a second time.
func TestResolveDoesNotFallBack(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.basic = true
	src := r.source(Reference{Tag: "1.0.0"})
	src.Access = Access{CA: r.ca()}
	if _, err := newClient(t).Resolve(t.Context(), src); !errors.Is(err, ocierr.ErrUnauthorized) {
		t.Errorf("error = %v, want ErrUnauthorized", err)
	}
	r.wantRequests(map[string]int{"HEAD manifest": 1})
}

func TestResolveForbidden(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"errors":[{"code":"DENIED","message":"planted-message"}]}`)
		return true
	}
	_, err := newClient(t).Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
	if !errors.Is(err, ocierr.ErrUnauthorized) || !strings.Contains(err.Error(), "403 DENIED") {
		t.Fatalf("error = %v, want ErrUnauthorized with the code, which only a GET has", err)
	}
	noSecrets(t, err)
}

// TestResolveRefusesOtherDigestAlgorithms checks that only SHA-256 is accepted. The fields of the API and of Helm's
// records take only digests of SHA-256.
func TestResolveRefusesOtherDigestAlgorithms(t *testing.T) {
	t.Parallel()
	for name, hasHead := range map[string]bool{"HEAD": true, "GET": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			data := r.manifests[r.push("1.0.0", "1.0.0", []byte("x"))]
			r.intercept = func(w http.ResponseWriter, req *http.Request) bool {
				switch {
				case !hasHead && req.Method == http.MethodHead:
					w.WriteHeader(http.StatusMethodNotAllowed)
				case transport.KindOf(req) == transport.RequestManifest:
					w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
					w.Header().Set("Docker-Content-Digest", digest.SHA512.FromBytes(data).String())
					w.Header().Set("Content-Length", strconv.Itoa(len(data)))
					if req.Method == http.MethodGet {
						_, _ = w.Write(data) // the client may have gone
					}
				default:
					return false
				}
				return true
			}
			_, err := newClient(t).Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
			if !errors.Is(err, ocierr.ErrUnsupported) || !strings.Contains(err.Error(), "algorithm sha512") ||
				!strings.Contains(err.Error(), hintAlgorithm) {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestManifestFaults(t *testing.T) {
	t.Parallel()
	manifest := []byte(`{"schemaVersion":2}`)
	other := []byte(`{"schemaVersion":3}`)
	large := append(bytes.Repeat([]byte(" "), 10<<20), manifest...)
	send := func(w http.ResponseWriter, data []byte, claimed digest.Digest, chunked bool) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		if claimed != "" {
			w.Header().Set("Docker-Content-Digest", claimed.String())
		}
		if !chunked {
			w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		}
		_, _ = w.Write(data[:len(data)/2]) // the client may have gone
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(data[len(data)/2:])
	}
	for _, tc := range []struct {
		name    string
		data    []byte
		claimed digest.Digest
		chunked bool
		noHead  bool
		want    error
	}{
		{name: "other content than HEAD says", data: other, want: ocierr.ErrIntegrity},
		{name: "other content under the right digest", data: other, claimed: digest.FromBytes(manifest),
			want: ocierr.ErrIntegrity},
		{name: "a digest that is a lie", data: manifest, claimed: digest.FromBytes(other), noHead: true,
			want: ocierr.ErrIntegrity},
		{name: "10 MB", data: large, want: ocierr.ErrTooLarge},
		{name: "10 MB without a digest", data: large, noHead: true, want: ocierr.ErrTooLarge},
		{name: "10 MB in chunks", data: large, chunked: true, want: ocierr.ErrTooLarge},
		{name: "10 MB in chunks without HEAD", data: large, chunked: true, noHead: true, want: ocierr.ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.intercept = func(w http.ResponseWriter, req *http.Request) bool {
				switch {
				case req.Method == http.MethodGet:
					send(w, tc.data, tc.claimed, tc.chunked)
				case tc.noHead:
					w.WriteHeader(http.StatusMethodNotAllowed)
				default:
					claimed := digest.FromBytes(manifest)
					if len(tc.data) > endpoint.MaxMetadata {
						claimed = digest.FromBytes(tc.data)
					}
					send(w, tc.data, claimed, false)
				}
				return true
			}
			c := newClient(t)
			_, err := c.Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
			if !errors.Is(err, tc.want) {
				t.Errorf("error = %v, want %v", err, tc.want)
			}
			r.wantRequests(map[string]int{"HEAD manifest": 1, "GET manifest": 1})
			if number, _ := storedFiles(t, c.opts.Dir); number != 0 {
				t.Error("something was stored")
			}
		})
	}
}

// TestManifestInChunksWithoutHead checks a chunked manifest, which has no length, from a registry that refuses HEAD.
func TestManifestInChunksWithoutHead(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	dgst := r.push("1.0.0", "1.0.0", []byte("x"))
	r.intercept = func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		_ = http.NewResponseController(w).Flush() // after a flush, the response has no length
		_, _ = w.Write(r.manifests[dgst])
		return true
	}
	c := newClient(t)
	got, err := c.Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
	if err != nil || got.Digest != dgst {
		t.Fatalf("artifact = %+v, %v", got, err)
	}
	r.wantRequests(map[string]int{"HEAD manifest": 1, "GET manifest": 1})
}

func TestResolveUnsupported(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	layers := []ocispec.Descriptor{r.addBlob(chartLayer, []byte("x"))}
	config := r.addBlob(chartConfig, []byte("{}"))
	for tag, manifest := range map[string]any{
		"several manifests": ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}},
		"no config":         map[string]any{},
		"JSON object":       []string{"x"},
		"no layers":         ocispec.Manifest{Config: config},
		"invalid digest":    ocispec.Manifest{Config: config, Layers: []ocispec.Descriptor{{Digest: "sha256:../../x"}}},
		"digest or size":    ocispec.Manifest{Config: config, Layers: []ocispec.Descriptor{{Digest: someDigest, Size: -1}}},
		"planted/type":      ocispec.Manifest{MediaType: "planted/type", Config: config, Layers: layers},
	} {
		t.Run(tag, func(t *testing.T) {
			dgst := r.pushManifest("", manifest)
			_, err := newClient(t).Resolve(t.Context(), r.source(Reference{Digest: dgst}))
			if !errors.Is(err, ocierr.ErrUnsupported) || !strings.Contains(err.Error(), tag) {
				t.Errorf("error = %v, want ErrUnsupported with %q", err, tag)
			}
		})
	}
}

// TestConfigBlobSizeIsLimited checks that a large config blob is not read. A config blob is read only for its version.
// A wrong size in a manifest must cost no memory.
func TestConfigBlobSizeIsLimited(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	large := r.addBlob(chartConfig, append([]byte(`{"version":"1.0.0"}`), bytes.Repeat([]byte(" "), maxConfig)...))
	layers := []ocispec.Descriptor{r.addBlob(chartLayer, []byte("x"))}
	dgst := r.pushManifest("", ocispec.Manifest{Config: large, Layers: layers})
	c := newClient(t)
	got, err := c.Resolve(t.Context(), r.source(Reference{Digest: dgst}))
	if err != nil || got.Version != "" {
		t.Errorf("artifact = %+v, %v", got, err)
	}
	r.wantRequests(map[string]int{"GET manifest": 1})

	large.Size = 10
	dgst = r.pushManifest("", ocispec.Manifest{Config: large, Layers: layers})
	if _, err := c.Resolve(t.Context(), r.source(Reference{Digest: dgst})); !errors.Is(err, ocierr.ErrIntegrity) {
		t.Errorf("error = %v, want ErrIntegrity", err)
	}
}
