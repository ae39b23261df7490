// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/store"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

func TestMirrorWithWrongContentIsBlocked(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct{ body, length, digest string }{
		"wrong": {body: "LAYER", length: "5"}, "short": {body: "lay", length: "5"},
		"of another length": {body: "layers", length: "6"},
		"too long":          {body: "LAYERS"}, "wrong in a header": {body: "LAYER", length: "5", digest: someDigest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, mirror, dgst := mirrorPair(t)
			other := mirror.push("2.0.0", "2.0.0", []byte("other"))
			mirror.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
				if transport.KindOf(req) != transport.RequestBlob {
					return false
				}
				for name, value := range map[string]string{
					"Content-Length": answer.length, "Docker-Content-Digest": answer.digest,
				} {
					if value != "" {
						w.Header().Set(name, value)
					}
				}
				_ = http.NewResponseController(w).Flush() // without a length, the response is chunked
				_, _ = w.Write([]byte(answer.body))
				return true
			})
			set, _ := withRegistries(t, mirrored(r.host(), mirror.host()))
			for round := range 2 { // the second round has another store
				c := newClient(t, set)
				if err := pullAllOf(t, c, r.source(Reference{Digest: dgst})); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				// A mirror that is blocked for one digest still serves other digests.
				before := mirror.count("GET manifest")
				if _, err := c.Fetch(t.Context(), r.url(), other, r.access()); err != nil ||
					mirror.count("GET manifest") != before+1 {
					t.Errorf("error = %v; want the mirror to serve other content", err)
				}
			}
			// For each client: the config, which is read for its version, and the layer.
			r.wantRequests(map[string]int{"GET blob": 4})
			if n := mirror.count("GET blob"); n != 4 {
				t.Errorf("the mirror was asked for %d blobs, want each once", n)
			}
		})
	}
}

func TestMirrorWithWrongManifestIsBlocked(t *testing.T) {
	t.Parallel()
	respond := func(header, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", header)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, answer := range map[string]func(http.ResponseWriter){
		"of other content":  respond("", "{}"),
		"of another digest": respond(someDigest, "{}"),
		"of no manifest":    func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
		"that breaks off": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		},
		"that is too large": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(endpoint.MaxMetadata+1))
		},
		"of too many values to read": respond("", string(filled(`{"layers":[`, "{}", "]}", endpoint.MaxMetadata))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, mirror, dgst := mirrorPair(t)
			mirror.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
				isManifest := transport.KindOf(req) == transport.RequestManifest
				switch {
				case isManifest && req.Method == http.MethodHead:
					w.WriteHeader(http.StatusMethodNotAllowed) // the client then sends GET with the tag
				case isManifest:
					answer(w)
				}
				return isManifest
			})
			set, _ := withRegistries(t, mirrored(r.host(), mirror.host()))
			for _, ref := range []Reference{{Tag: "1.0.0"}, {Digest: dgst}} {
				if err := pullAllOf(t, newClient(t, set), r.source(ref)); err != nil {
					t.Errorf("%+v: %v", ref, err)
				}
			}
			r.wantRequests(map[string]int{"GET manifest": 2})
			// In an air-gapped network, the error contains the failure of the mirror.
			gap := closedAddress(t)
			set, _ = withRegistries(t, mirrored(gap, mirror.host()))
			src := mirror.source(Reference{Digest: dgst})
			src.URL = scheme + gap + "/" + testRepo
			_, err := newClient(t, set).Resolve(t.Context(), src)
			if err == nil || errors.Is(err, ocierr.ErrUnreachable) {
				t.Errorf("error = %v, want what is wrong with the mirror's", err)
			}
		})
	}
}

// TestProxyBlocksMirrorOnlyForItself checks that a wrong answer through the proxy of a tenant does not block the mirror
// for accesses without this proxy.
func TestProxyBlocksMirrorOnlyForItself(t *testing.T) {
	t.Parallel()
	mirror, forger := newRegistry(t), newRegistry(t)
	dgst := mirror.push("1.0.0", "1.0.0", []byte("layer"))
	forger.setIntercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Docker-Content-Digest", someDigest)
		_, _ = w.Write([]byte("{}"))
		return true
	})
	// The registry itself does not answer, so only the mirror has the artifact.
	gap := closedAddress(t)
	set, _ := withRegistries(t, mirrored(gap, mirror.host()))
	c := newClient(t, set)
	src := mirror.source(Reference{Digest: dgst})
	src.URL = scheme + gap + "/" + testRepo
	forged := src
	forged.Access.Proxy = &credentials.Proxy{
		Address: newConnectProxy(t, nil, map[string]string{mirror.host(): forger.host()}).URL}
	for range 2 {
		if err := pullAllOf(t, c, forged); err == nil {
			t.Error("the forged manifest was accepted")
		}
	}
	if n := forger.count("GET manifest"); n != 1 {
		t.Errorf("%d requests to the forger, want 1: the mirror is then blocked for its own proxy", n)
	}
	if err := pullAllOf(t, c, src); err != nil {
		t.Errorf("without the proxy: %v", err)
	}
}

// TestFullDiskDoesNotBlockMirror checks that a full disk does not add a mirror to the blocklist.
func TestFullDiskDoesNotBlockMirror(t *testing.T) {
	t.Parallel()
	mirror := newRegistry(t)
	layer := bytes.Repeat([]byte("layer"), 1<<20)
	dgst := mirror.push("1.0.0", "1.0.0", layer)
	set, _ := withRegistries(t, mirrored(logicalHost, mirror.host()))
	c := newClient(t, set)
	content, err := c.Fetch(t.Context(), scheme+logicalHost+"/"+testRepo, dgst, mirror.access())
	if err != nil {
		t.Fatal(err)
	}
	create := c.store.Create
	c.store.Create = func(string, string) (store.TempFile, error) {
		return nil, &fs.PathError{Op: "open", Err: syscall.EIO}
	}
	if _, err := content.ReadLayer(t.Context(), content.Layers[0]); !errors.Is(err, ocierr.ErrStore) {
		t.Errorf("error = %v, want ErrStore", err)
	}
	c.store.Create = create
	if data, err := content.ReadLayer(t.Context(), content.Layers[0]); err != nil || !bytes.Equal(data, layer) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
