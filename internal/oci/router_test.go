// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// logicalHost is a registry that is reached only through its mirrors.
const logicalHost = "registry.invalid"

// withRegistries writes a registries file and sets the option for this file.
func withRegistries(t *testing.T, config string) (set func(*Options), path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "registries.conf")
	writeFile(t, path, config)
	return func(o *Options) { o.RegistriesFile = path }, path
}

// mirrored returns a registries file with mirrors. Each entry is a location, and may have more lines.
func mirrored(prefix string, mirrors ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[[registry]]\nprefix = %q\n", prefix)
	for _, mirror := range mirrors {
		location, more, _ := strings.Cut(mirror, "\n")
		fmt.Fprintf(&b, "[[registry.mirror]]\nlocation = %q\n%s\n", location, more)
	}
	return b.String()
}

// mirrorPair returns a registry and a mirror with the same content.
func mirrorPair(t *testing.T) (r, mirror *fakeRegistry, dgst string) {
	t.Helper()
	r, mirror = newRegistry(t), newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("layer"))
	return r, mirror, mirror.push("1.0.0", "1.0.0", []byte("layer"))
}

// pullAllOf resolves a source and reads the layer.
func pullAllOf(t *testing.T, c *Client, src Source) error {
	t.Helper()
	artifact, err := c.Resolve(t.Context(), src)
	if err != nil {
		return err
	}
	content, err := c.Fetch(t.Context(), src.URL, artifact.Digest, src.Access)
	if err != nil {
		return err
	}
	data, err := content.ReadLayer(t.Context(), content.Layers[0])
	if err == nil && string(data) != "layer" {
		t.Errorf("layer = %q", data)
	}
	return err
}

func TestMirrorServesEverything(t *testing.T) {
	t.Parallel()
	r, mirror, _ := mirrorPair(t)
	set, _ := withRegistries(t, mirrored(r.host(), mirror.host()))
	var mu sync.Mutex
	var asked []string
	c := newClient(t, set, func(o *Options) {
		o.Observer.Request = func(e transport.RequestEvent) { mu.Lock(); asked = append(asked, e.Registry); mu.Unlock() }
	})
	if err := pullAllOf(t, c, r.source(Reference{Semver: "*"})); err != nil {
		t.Fatal(err)
	}
	r.wantRequests(map[string]int{})
	mirror.wantRequests(map[string]int{"GET tags": 1, "HEAD manifest": 1, "GET manifest": 1, "GET blob": 1})
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 4 || slices.ContainsFunc(asked, func(host string) bool { return host != mirror.host() }) {
		t.Errorf("observed requests to %q, want 4 to the mirror", asked)
	}
}

func TestMirrorUnderAnotherPath(t *testing.T) {
	t.Parallel()
	_, mirror, _ := mirrorPair(t)
	mirror.bearer, mirror.pageSize = true, 1
	mirror.push("2.0.0", "2.0.0", []byte("layer"))
	set, _ := withRegistries(t, mirrored(logicalHost+"/apps", mirror.host()+"/charts"))
	src := mirror.source(Reference{Semver: "*"})
	src.URL = scheme + logicalHost + "/apps/demo"
	src.Access.DockerConfigs = append(src.Access.DockerConfigs,
		dockerConfigFor(logicalHost, "planted-other", "planted-other"))
	var scopes sync.Map
	mirror.setIntercept(func(_ http.ResponseWriter, req *http.Request) bool {
		if user, _, ok := req.BasicAuth(); ok && user != testUser {
			t.Errorf("the mirror was shown the user %q", user)
		}
		for _, scope := range req.URL.Query()["scope"] {
			scopes.Store(scope, true)
		}
		return false
	})
	if err := pullAllOf(t, newClient(t, set), src); err != nil {
		t.Fatal(err)
	}
	// There is one challenge and one token for all pages of the list and all later requests.
	mirror.wantRequests(map[string]int{"GET tags": 3, "GET token": 1, "HEAD manifest": 1, "GET manifest": 1,
		"GET blob": 1})
	scopes.Range(func(scope, _ any) bool {
		if scope != "repository:"+testRepo+":pull" {
			t.Errorf("asked for scope %q", scope)
		}
		return true
	})
}

func TestRegistryReplacesFailedMirror(t *testing.T) {
	t.Parallel()
	answer := func(status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(status)
			return true
		}
	}
	for name, fail := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"400": answer(400), "401": answer(401), "403": answer(403), "404": answer(404), "429": answer(429),
		"500": answer(500), "503": answer(503),
		"hangs": func(_ http.ResponseWriter, req *http.Request) bool { hang(req); return true },
		"is slow in saying no": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusForbidden)
			if req.Method == http.MethodGet {
				_ = http.NewResponseController(w).Flush()
				hang(req)
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, mirror, _ := mirrorPair(t)
			mirror.setIntercept(fail)
			set, _ := withRegistries(t, mirrored(r.host(), mirror.host()))
			c := newClient(t, set, func(o *Options) {
				if name == "hangs" || name == "is slow in saying no" {
					// The registry gets a share of the timeout. A busy machine must answer within this share.
					o.Timeout, o.PullTimeout = 5*time.Second, 5*time.Second
				}
			})
			start := time.Now()
			if err := pullAllOf(t, c, r.source(Reference{Tag: "1.0.0"})); err != nil {
				t.Fatal(err)
			}
			r.wantRequests(map[string]int{"HEAD manifest": 1, "GET manifest": 1, "GET blob": 1})
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %s, which is no stepping in but waiting", took)
			}
			want := 3
			if name == "429" || name == "503" {
				want = 1 // the mirror asked for a wait
			}
			if name == "hangs" {
				want = 1 // one failure is enough if another host answers
			}
			if got := mirror.count("HEAD manifest") + mirror.count("GET manifest") + mirror.count("GET blob"); got != want {
				t.Errorf("the mirror was asked %d times, want %d", got, want)
			}
		})
	}
}

func TestErrorWhenNoHostHasContent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// mirrors and registry are the statuses of the responses. Zero means a refused connection.
		mirrors  []int
		registry int
		want     error
	}{
		{"the registry's word counts", []int{500}, 404, ocierr.ErrNotFound},
		{"and over refused credentials", []int{401}, 404, ocierr.ErrNotFound},
		{"and over what is missing", []int{404}, 403, ocierr.ErrUnauthorized},
		{"the mirror's counts behind an air gap", []int{404}, 0, ocierr.ErrNotFound},
		{"and its refusal", []int{401}, 0, ocierr.ErrUnauthorized},
		{"the last mirror's of several", []int{500, 403}, 0, ocierr.ErrUnauthorized},
		{"no host answers", []int{0}, 0, ocierr.ErrUnreachable},
		{"a mirror answers, another does not", []int{404, 0}, 0, ocierr.ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			host := func(status int) string {
				if status == 0 {
					return closedAddress(t)
				}
				r := newRegistry(t)
				r.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
					w.WriteHeader(status)
					_, _ = w.Write([]byte(`{"errors":[{"code":"planted-x","message":"planted-x"}]}`))
					return true
				}
				return r.host()
			}
			var mirrors []string
			for _, status := range tc.mirrors {
				mirrors = append(mirrors, host(status))
			}
			registry := host(tc.registry)
			set, _ := withRegistries(t, mirrored(registry, mirrors...))
			src := newRegistry(t).source(Reference{Tag: "1.0.0"})
			src.URL = scheme + registry + "/" + testRepo
			_, err := newClient(t, set).Resolve(t.Context(), src)
			if !errors.Is(err, tc.want) {
				t.Fatalf("error = %v, want %v", err, tc.want)
			}
			noSecrets(t, err)
			for _, host := range append(mirrors, registry) {
				if !strings.Contains(err.Error(), host) {
					t.Errorf("the error %v does not name %s", err, host)
				}
			}
		})
	}
}

// TestPagesComeFromOneHost checks that all pages of a list come from one host. The pages of two hosts may contain
// different tags.
func TestPagesComeFromOneHost(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"mirror", "registry"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r, mirror, _ := mirrorPair(t)
			r.pageSize, mirror.pageSize = 1, 1
			for _, tag := range []string{"1.1.0", "1.2.0"} {
				r.push(tag, tag, []byte("layer"))
				mirror.push(tag, tag, []byte("layer"))
			}
			if at == "registry" {
				var first sync.Once
				mirror.setIntercept(func(w http.ResponseWriter, _ *http.Request) (refused bool) {
					first.Do(func() { w.WriteHeader(http.StatusNotFound); refused = true })
					return refused
				})
			}
			set, _ := withRegistries(t, mirrored(r.host(), mirror.host()))
			artifact, err := newClient(t, set).Resolve(t.Context(), r.source(Reference{Semver: "*"}))
			if err != nil || artifact.Tag != "1.2.0" {
				t.Fatalf("artifact = %+v, %v", artifact, err)
			}
			wantMirror, wantRegistry := 3, 0
			if at == "registry" {
				wantMirror, wantRegistry = 1, 3
			}
			if m, r := mirror.count("GET tags"), r.count("GET tags"); m != wantMirror || r != wantRegistry {
				t.Errorf("pages: %d of the mirror, %d of the registry; want %d and %d", m, r, wantMirror, wantRegistry)
			}
		})
	}
}

func TestPullFromMirrorSetting(t *testing.T) {
	t.Parallel()
	for pull, want := range map[string]map[string]int{
		"digest-only": {"GET manifest": 1, "GET blob": 1},
		"tag-only":    {"GET tags": 1, "HEAD manifest": 1},
	} {
		r, mirror, _ := mirrorPair(t)
		set, _ := withRegistries(t, mirrored(r.host(), mirror.host()+"\npull-from-mirror = '"+pull+"'"))
		if err := pullAllOf(t, newClient(t, set), r.source(Reference{Semver: "*"})); err != nil {
			t.Fatal(err)
		}
		mirror.wantRequests(want)
	}
}

func TestBlockedRegistry(t *testing.T) {
	t.Parallel()
	r, mirror, _ := mirrorPair(t)
	set, _ := withRegistries(t, strings.Replace(mirrored(r.host(), mirror.host()), "[[registry.mirror]]",
		"blocked = true\n[[registry.mirror]]", 1))
	_, err := newClient(t, set).Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
	if !errors.Is(err, ocierr.ErrUnauthorized) || !strings.Contains(err.Error(), "blocked") {
		t.Errorf("error = %v, want ErrUnauthorized that says blocked", err)
	}
	r.wantRequests(map[string]int{})
	mirror.wantRequests(map[string]int{})
}

func TestLocationReplacesRegistry(t *testing.T) {
	t.Parallel()
	internal := newRegistry(t)
	internal.push("1.0.0", "1.0.0", []byte("layer"))
	internal.allowMissing = true
	set, _ := withRegistries(t, fmt.Sprintf("[[registry]]\nprefix = %q\nlocation = %q\n", logicalHost,
		internal.host()+"/charts"))
	src := internal.source(Reference{Tag: "1.0.0"})
	src.URL = scheme + logicalHost + "/demo"
	if err := pullAllOf(t, newClient(t, set), src); err != nil {
		t.Fatal(err)
	}
	src.Ref.Tag = "2.0.0"
	_, err := newClient(t, set).Resolve(t.Context(), src)
	if !errors.Is(err, ocierr.ErrNotFound) || !strings.Contains(err.Error(), "answered by "+internal.host()) {
		t.Errorf("error = %v, want ErrNotFound that says who was asked", err)
	}
}

func TestRegistriesFileIsReadAgain(t *testing.T) {
	t.Parallel()
	r, mirror, _ := mirrorPair(t)
	set, path := withRegistries(t, mirrored(r.host(), mirror.host()))
	var broken []error
	c := newClient(t, set, func(o *Options) { o.Observer.File = func(e FileEvent) { broken = append(broken, e.Err) } })
	src := r.source(Reference{Tag: "1.0.0"})
	resolve := func(wantMirror, wantRegistry, wantBroken int) {
		t.Helper()
		if _, err := c.Resolve(t.Context(), src); err != nil {
			t.Fatal(err)
		}
		if m, r := mirror.count("HEAD manifest"), r.count("HEAD manifest"); m != wantMirror || r != wantRegistry ||
			len(broken) != wantBroken {
			t.Errorf("%d of the mirror, %d of the registry, reports %v; want %d, %d and %d", m, r, broken, wantMirror,
				wantRegistry, wantBroken)
		}
	}
	resolve(1, 0, 0)
	writeFile(t, path, "[[registry]]\nwrong = 1")
	resolve(2, 0, 1)
	resolve(3, 0, 1)
	writeFile(t, path, "")
	resolve(3, 1, 1)
}

// TestMirrorOfACloudRegistry checks that the credential of a cloud provider is not sent to a mirror of the provider's
// registry.
func TestMirrorOfACloudRegistry(t *testing.T) {
	t.Parallel()
	r, mirror, _ := mirrorPair(t)
	r.basic, mirror.basic = true, true
	mirror.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		if transport.KindOf(req) != transport.RequestBlob {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	set, _ := withRegistries(t, mirrored(r.host(), mirror.host()))
	defaults := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, defaults, string(dockerConfigFor(mirror.host(), testUser, testPassword)))
	cloud := &fakeCloud{give: func(_ int, _, repository string) (credentials.CloudCredential, error) {
		if !strings.HasPrefix(repository, r.host()+"/") {
			return credentials.CloudCredential{}, &ocierr.Error{Op: "log in to", Subject: "aws", Kind: ocierr.ErrInvalidAccess,
				Detail: "not a registry of it"}
		}
		return credentials.CloudCredential{Username: testUser, Password: testPassword}, nil
	}}
	src := r.source(Reference{Tag: "1.0.0"})
	src.Access = Access{CloudProvider: "aws"}
	c := newClient(t, set, trusting(t, r), withCloud(cloud), func(o *Options) { o.CredentialsFile = defaults })
	if err := pullAllOf(t, c, src); err != nil {
		t.Fatal(err)
	}
	if m, r := mirror.count("GET manifest"), r.count("GET blob"); m == 0 || r == 0 {
		t.Errorf("%d manifests of the mirror, %d blobs of the registry; want some of each", m, r)
	}
}

// TestCloudCredentialIsNotSentToOtherLocation checks that the credential of a cloud provider is not sent to the
// location that the registries file has for the registry.
func TestCloudCredentialIsNotSentToOtherLocation(t *testing.T) {
	t.Parallel()
	internal := newRegistry(t)
	internal.basic = true
	internal.push("1.0.0", "1.0.0", []byte("layer"))
	set, _ := withRegistries(t, fmt.Sprintf("[[registry]]\nprefix = %q\nlocation = %q\n", logicalHost, internal.host()))
	defaults := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, defaults, string(dockerConfigFor(internal.host(), testUser, testPassword)))
	cloud := &fakeCloud{give: func(int, string, string) (credentials.CloudCredential, error) {
		return credentials.CloudCredential{}, &ocierr.Error{Op: "log in to", Subject: "aws", Kind: ocierr.ErrInvalidAccess,
			Detail: "not a registry of it"}
	}}
	src := Source{URL: scheme + logicalHost + "/" + testRepo, Ref: Reference{Tag: "1.0.0"},
		Access: Access{CloudProvider: "aws"}}
	c := newClient(t, set, trusting(t, internal), withCloud(cloud), func(o *Options) { o.CredentialsFile = defaults })
	if err := pullAllOf(t, c, src); err != nil {
		t.Error(err)
	}
	// A refused static credential is not renewed, because a login would not return another credential.
	writeFile(t, defaults, string(dockerConfigFor(internal.host(), testUser, "planted-wrong")))
	internal.wantRequests(map[string]int{"HEAD manifest": 2, "GET manifest": 1, "GET blob": 1})
	if _, err := newClient(t, set, trusting(t, internal), withCloud(cloud),
		func(o *Options) { o.CredentialsFile = defaults }).
		Resolve(t.Context(), src); !errors.Is(err, ocierr.ErrUnauthorized) {
		t.Errorf("error = %v, want %v", err, ocierr.ErrUnauthorized)
	}
	if n := internal.count("HEAD manifest"); n > 2 {
		t.Errorf("asked %d times with a credential that is refused", n)
	}
}

func TestCancelDuringUnresponsiveMirror(t *testing.T) {
	t.Parallel()
	r, mirror, _ := mirrorPair(t)
	arrived := make(chan struct{}, 8)
	mirror.setIntercept(func(_ http.ResponseWriter,
		req *http.Request) bool {
		arrived <- struct{}{}
		hang(req)
		return true
	})
	set, _ := withRegistries(t, mirrored(r.host(), mirror.host()))
	c := newClient(t, set)
	e, err := c.endpoints.Endpoint(r.url(), r.access())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	go func() { <-arrived; cancel() }()
	ctx, x := e.Begin(ctx)
	_, err = e.Repository().Resolve(ctx, "1.0.0")
	if failure := x.Error("", "", err); !errors.Is(failure, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", failure)
	}
	r.wantRequests(map[string]int{})
}

// TestCancelBeforeAnswer cancels a request just before its response arrives. HTTP/2 may then return the response or an
// error.
func TestCancelBeforeAnswer(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c := newClient(t, trusting(t, r))
	e, err := c.endpoints.Endpoint(r.url(), r.access())
	if err != nil {
		t.Fatal(err)
	}
	var cancel atomic.Pointer[context.CancelFunc]
	r.setIntercept(func(http.ResponseWriter, *http.Request) bool {
		(*cancel.Load())()
		return true
	})
	for range 200 {
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		cancel.Store(&end)
		ctx, x := e.Begin(ctx)
		_, err := e.Repository().Resolve(ctx, "1.0.0")
		if failure := x.Error("", "", err); !errors.Is(failure, context.Canceled) {
			t.Fatalf("error = %v, want context.Canceled", failure)
		}
	}
}

func TestMirrorBodyMayTakeWholeTimeout(t *testing.T) {
	t.Parallel()
	const size = 12
	r, mirror := newRegistry(t), newRegistry(t)
	layer := bytes.Repeat([]byte("l"), size)
	dgst := mirror.push("1.0.0", "1.0.0", layer)
	const limit = 6 * time.Second
	mirror.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		if transport.KindOf(req) != transport.RequestBlob {
			return false
		}
		// The body takes longer than the mirror's half of the time, and arrives in small steps.
		w.Header().Set("Content-Length", fmt.Sprint(size))
		tick := time.NewTicker(limit * 2 / 3 / size)
		defer tick.Stop()
		for range size {
			<-tick.C
			_, _ = w.Write([]byte("l"))
			_ = http.NewResponseController(w).Flush()
		}
		return true
	})
	set, _ := withRegistries(t, mirrored(r.host(), mirror.host()))
	c := newClient(t, set, func(o *Options) { o.PullTimeout = limit })
	content, err := c.Fetch(t.Context(), r.url(), dgst, r.access())
	if err != nil {
		t.Fatal(err)
	}
	if data, err := content.ReadLayer(t.Context(), content.Layers[0]); err != nil || !bytes.Equal(data, layer) {
		t.Errorf("layer = %q, %v", data, err)
	}
}
