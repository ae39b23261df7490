// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// writeFile writes a file, and fails the test if this is not possible.
func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestInvalidFilesAtStart checks that calls fail if they need a file that was never valid.
func TestInvalidFilesAtStart(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*Options, string){
		"credentials": func(o *Options, path string) { o.CredentialsFile = path },
		"authorities": func(o *Options, path string) { o.CAFile = path },
		"registries":  func(o *Options, path string) { o.RegistriesFile = path },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			dgst := r.push("1.0.0", "1.0.0", []byte("x"))
			path := filepath.Join(t.TempDir(), "file")
			writeFile(t, path, "planted-x =")
			var mu sync.Mutex
			var broken []FileEvent
			c := newClient(t, trusting(t, r), func(o *Options) {
				set(o, path)
				o.Observer.File = func(e FileEvent) { mu.Lock(); broken = append(broken, e); mu.Unlock() }
			})
			access := Access{CA: r.ca()}
			if name == "credentials" {
				access = Access{} // an Access with a CA does not use the credentials file
			}
			for range 2 {
				_, err := c.Resolve(t.Context(), Source{URL: r.url(), Ref: Reference{Tag: "1.0.0"}, Access: access})
				if !errors.Is(err, ocierr.ErrInvalidAccess) || !strings.Contains(err.Error(), path) ||
					!strings.Contains(err.Error(), "ask the operator of the manager") {
					t.Errorf("error = %v, want ErrInvalidAccess that names %s", err, path)
				}
			}
			if _, err := c.Fetch(t.Context(), r.url(), dgst, access); !errors.Is(err, ocierr.ErrInvalidAccess) {
				t.Errorf("error = %v, want ErrInvalidAccess", err)
			}
			r.wantRequests(map[string]int{})
			mu.Lock()
			if len(broken) != 1 || broken[0].Path != path {
				t.Errorf("reported %v, want the file once", broken)
			}
			mu.Unlock()
			// A missing file is not an error, also if it was removed later.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Fetch(t.Context(), r.url(), dgst, access); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]func(*Options){
		"directory":   func(o *Options) { o.Dir = "" },
		"per second":  func(o *Options) { o.RequestsPerSecond = math.NaN() },
		"number":      func(o *Options) { o.RequestsPerSecond = math.Inf(1) },
		"https://t.x": func(o *Options) { o.TokenHosts = []string{"https://t.x"} },
		"token":       func(o *Options) { o.TokenHosts = []string{""} },
	} {
		opts := Options{Dir: t.TempDir()}
		set(&opts)
		if _, err := New(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

func TestDefaultCredentialsAndAuthoritiesAreReadAgain(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.basic = true
	r.push("1.0.0", "1.0.0", []byte("x"))
	dir := t.TempDir()
	config, authorities := filepath.Join(dir, "config.json"), filepath.Join(dir, "ca.crt")
	writeFile(t, config, string(dockerConfigFor(r.host(), testUser, "planted-old")))
	writeFile(t, authorities, string(newAuthority(t).PEM()))
	var mu sync.Mutex
	var broken []FileEvent
	c := newClient(t, func(o *Options) {
		o.CredentialsFile, o.CAFile = config, authorities
		o.Observer.File = func(e FileEvent) { mu.Lock(); broken = append(broken, e); mu.Unlock() }
	})
	src := Source{URL: r.url(), Ref: Reference{Tag: "1.0.0"}}
	resolve := func(want error) {
		t.Helper()
		if _, err := c.Resolve(t.Context(), src); !errors.Is(err, want) {
			t.Errorf("error = %v, want %v", err, want)
		} else if err != nil {
			noSecrets(t, err)
		}
	}
	resolve(ocierr.ErrTLS)
	writeFile(t, authorities, string(r.ca()))
	resolve(ocierr.ErrUnauthorized)
	writeFile(t, config, string(dockerConfigFor(r.host(), testUser, testPassword)))
	resolve(nil)
	writeFile(t, config, "planted-password")
	resolve(nil)
	mu.Lock()
	if len(broken) != 1 || broken[0].Path != config {
		t.Errorf("reported %v, want the config once", broken)
	}
	mu.Unlock()
	// The credential of a HelmOp wins against the credential of the manager.
	src.Access.DockerConfigs = [][]byte{dockerConfigFor(r.host(), testUser, "planted-wrong")}
	resolve(ocierr.ErrUnauthorized)
}
