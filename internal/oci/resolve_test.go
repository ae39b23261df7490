// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

func TestResolveTagCostsOneHeadOnceKnown(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	dgst := r.push("1.2.3_build.5", "1.2.3+build.5", []byte("layer"))
	c := newClient(t)

	got, err := c.Resolve(t.Context(), r.source(Reference{Tag: "1.2.3+build.5"}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != dgst || got.Tag != "1.2.3_build.5" || got.Version != "1.2.3+build.5" ||
		got.MediaType != chartConfig || len(got.Layers) != 1 || got.Layers[0].MediaType != chartLayer {
		t.Errorf("artifact = %+v", got)
	}
	r.wantRequests(map[string]int{"HEAD manifest": 1, "GET manifest": 1})

	if _, err := c.Resolve(t.Context(), r.source(Reference{Tag: "1.2.3_build.5"})); err != nil {
		t.Fatal(err)
	}
	r.wantRequests(map[string]int{"HEAD manifest": 1})

	moved := r.push("1.2.3_build.5", "1.2.3+build.5", []byte("other layer"))
	got, err = c.Resolve(t.Context(), r.source(Reference{Tag: "1.2.3_build.5"}))
	if err != nil || got.Digest != moved {
		t.Errorf("after the tag moved: %v, %v; want %s", got.Digest, err, moved)
	}
	r.wantRequests(map[string]int{"HEAD manifest": 1, "GET manifest": 1})
}

func TestResolveStoredDigestMakesNoRequest(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	dgst := r.push("", "4.5.6", []byte("layer"))
	c := newClient(t)
	for i := range 3 {
		got, err := c.Resolve(t.Context(), r.source(Reference{Digest: dgst}))
		if err != nil {
			t.Fatal(err)
		}
		if got.Version != "4.5.6" || got.Tag != "" || got.Digest != dgst {
			t.Errorf("artifact = %+v", got)
		}
		want := map[string]int{}
		if i == 0 { // the manifest, and the config with the version
			want = map[string]int{"GET manifest": 1, "GET blob": 1}
		}
		r.wantRequests(want)
	}
}

func TestResolveVersionFromAnnotation(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.pushManifest("stable", ocispec.Manifest{
		Config:      r.addBlob(chartConfig, []byte(`{"version":"9.9.9"}`)),
		Layers:      []ocispec.Descriptor{r.addBlob(chartLayer, []byte("x"))},
		Annotations: map[string]string{ocispec.AnnotationVersion: "7.0.0"},
	})
	got, err := newClient(t).Resolve(t.Context(), r.source(Reference{Tag: "stable"}))
	if err != nil || got.Version != "7.0.0" {
		t.Errorf("version %q, %v; want 7.0.0", got.Version, err)
	}
	r.wantRequests(map[string]int{"HEAD manifest": 1, "GET manifest": 1})
}

func TestResolveSemverPages(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.pageSize = 7
	for i := range 20 {
		r.push(fmt.Sprintf("3.30.%d", i), "x", []byte("x"))
	}
	best := r.push("3.30.100", "3.30.100", []byte("best"))
	for _, other := range []string{"3.31.0", "3.30.101-rc.1", "3.30.200.sig", "sha256-3.30.201", "latest", "3.30",
		"20260101"} {
		r.push(other, "x", []byte("x"))
	}
	c := newClient(t)
	got, err := c.Resolve(t.Context(), r.source(Reference{Semver: "~3.30"}))
	if err != nil || got.Digest != best || got.Tag != "3.30.100" {
		t.Errorf("artifact = %+v, %v", got, err)
	}
	r.wantRequests(map[string]int{"GET tags": 4, "HEAD manifest": 1, "GET manifest": 1})

	_, err = c.Resolve(t.Context(), r.source(Reference{Semver: "^9"}))
	if !errors.Is(err, ocierr.ErrNoMatchingTag) {
		t.Errorf("error = %v, want ErrNoMatchingTag", err)
	}
}

func TestResolveNotFoundMessages(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.allowMissing = true
	c := newClient(t)
	for _, tc := range []struct{ url, want string }{
		{r.url(), "no such manifest"},
		{scheme + r.host() + "/other", "does not know the repository"},
	} {
		_, err := c.Resolve(t.Context(), Source{URL: tc.url, Ref: Reference{Tag: "1.0.0"}, Access: r.access()})
		if !errors.Is(err, ocierr.ErrNotFound) || !strings.Contains(fmt.Sprint(err), tc.want) {
			t.Errorf("%s: error = %v, want ErrNotFound with %q", tc.url, err, tc.want)
		}
	}
}

func TestResolveWithCredentials(t *testing.T) {
	t.Parallel()
	for _, bearer := range []bool{false, true} {
		t.Run(fmt.Sprintf("bearer=%t", bearer), func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.basic, r.bearer = !bearer, bearer
			r.push("1.0.0", "1.0.0", []byte("x"))
			c := newClient(t)
			src := r.source(Reference{Tag: "1.0.0"})
			if _, err := c.Resolve(t.Context(), src); err != nil {
				t.Fatal(err)
			}
			first := map[string]int{"HEAD manifest": 2, "GET manifest": 1} // challenged once
			if bearer {
				first["GET token"] = 1
			}
			r.wantRequests(first)
			if _, err := c.Resolve(t.Context(), src); err != nil {
				t.Fatal(err)
			}
			r.wantRequests(map[string]int{"HEAD manifest": 1}) // scheme and token are kept

			src.Access.DockerConfigs = [][]byte{dockerConfigFor(r.host(), testUser, "planted-wrong")}
			_, err := c.Resolve(t.Context(), src)
			if !errors.Is(err, ocierr.ErrUnauthorized) {
				t.Fatalf("wrong password: error = %v, want ErrUnauthorized", err)
			}
			noSecrets(t, err)
			src.Access.DockerConfigs = nil
			if _, err := c.Resolve(t.Context(), src); !errors.Is(err, ocierr.ErrUnauthorized) {
				t.Errorf("no password: error = %v, want ErrUnauthorized", err)
			}
		})
	}
}

func TestResolveWithIdentityToken(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.bearer = true
	r.push("1.0.0", "1.0.0", []byte("x"))
	src := r.source(Reference{Tag: "1.0.0"})
	src.Access.DockerConfigs = [][]byte{[]byte(`{"auths":{"` + r.host() + `":{"identitytoken":"` + testIdentity + `"}}}`)}
	if _, err := newClient(t).Resolve(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	r.wantRequests(map[string]int{"HEAD manifest": 2, "POST token": 1, "GET manifest": 1})
}

func TestResolveAgainWithOtherCA(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	c := newClient(t)
	src := r.source(Reference{Tag: "1.0.0"})
	right := src.Access.CA
	src.Access.CA = nil
	if _, err := c.Resolve(t.Context(), src); !errors.Is(err, ocierr.ErrTLS) {
		t.Errorf("without the CA: error = %v, want ErrTLS", err)
	}
	src.Access.CA = right
	if _, err := c.Resolve(t.Context(), src); err != nil {
		t.Errorf("the CA takes effect at once: %v", err)
	}
}

func TestResolveInvalidAccess(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c := newClient(t)
	for name, access := range map[string]Access{
		"config": {DockerConfigs: [][]byte{[]byte("planted-password")}},
		"ca":     {CA: []byte("planted-password")},
	} {
		_, err := c.Resolve(t.Context(), Source{URL: r.url(), Ref: Reference{Tag: "1"}, Access: access})
		if !errors.Is(err, ocierr.ErrInvalidAccess) {
			t.Fatalf("%s: error = %v, want ErrInvalidAccess", name, err)
		}
		noSecrets(t, err)
	}
	r.wantRequests(map[string]int{})
}

func TestResolveUntrusted(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c := newClient(t)
	src := r.source(Reference{Tag: "1.0.0"})
	src.Access.CA = nil
	if _, err := c.Resolve(t.Context(), src); !errors.Is(err, ocierr.ErrTLS) {
		t.Errorf("without the CA: error = %v, want ErrTLS", err)
	}
	plain := newPlainServer(t)
	_, err := c.Resolve(t.Context(), Source{URL: scheme + plain + "/x", Ref: Reference{Tag: "1.0.0"}})
	if !errors.Is(err, ocierr.ErrTLS) || !strings.Contains(fmt.Sprint(err), "insecure") {
		t.Errorf("plain HTTP: error = %v, want ErrTLS with a hint", err)
	}
}

func TestResolveFromManyGoroutines(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	c := newClient(t)
	const callers = 20
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			if _, err := c.Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"})); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if got := r.count("HEAD manifest"); got > callers {
		t.Errorf("%d HEAD requests for %d callers", got, callers)
	}
	if got := r.count("GET manifest"); got != 1 {
		t.Errorf("%d GET requests, want 1", got)
	}
}
