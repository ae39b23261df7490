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
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// parseUpper accepts text that does not begin with "bad".
func parseUpper(data []byte) (string, error) {
	if strings.HasPrefix(string(data), "bad") {
		return "", errors.New("cannot be read")
	}
	return strings.ToUpper(string(data)), nil
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatchedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	writeFile(t, path, "one")
	var reports []string
	file := watchFile(path, parseUpper, func(err error) { reports = append(reports, err.Error()) })
	want := func(value string, reported int) {
		t.Helper()
		for range 3 { // repeated reads report nothing new
			if got, err := file.get(); err != nil || got != value || len(reports) != reported {
				t.Errorf("value = %q, %v, reports = %q; want %q and %d", got, err, reports, value, reported)
			}
		}
	}
	want("ONE", 0)
	writeFile(t, path, "two") // as long as the one before, and at nearly the same time
	want("TWO", 0)
	// All metadata of the file is the same; only the content differs.
	now := time.Now()
	for _, content := range []string{"six", "ten"} {
		writeFile(t, path, content)
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
		want(strings.ToUpper(content), 0)
	}
	writeFile(t, path, "bad planted-x")
	want("TEN", 1)
	if strings.Contains(reports[0], "planted") || !strings.Contains(reports[0], path) {
		t.Errorf("the report %q must name the file and not its content", reports[0])
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("", 1)
	// What was not good since it is there has nothing that could stand in for it.
	writeFile(t, path, strings.Repeat("x", maxFile+1))
	if _, err := file.get(); !errors.Is(err, errBrokenFile) || len(reports) != 2 {
		t.Errorf("error = %v, reports = %q, want a file that cannot be used, and is reported", err, reports)
	}
	// What is mounted from a ConfigMap is a link that is moved to a new file.
	next := filepath.Join(filepath.Dir(path), "next")
	writeFile(t, next, "three")
	if err := errors.Join(os.Remove(path), os.Symlink(next, path)); err != nil {
		t.Fatal(err)
	}
	want("THREE", 2)
	writeFile(t, next, "bad again")
	want("THREE", 3)
}

func TestWatchedFileIsReadOnlyWhenItChanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	writeFile(t, path, "one")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	reads := 0
	file := watchFile(path, func([]byte) (int, error) { reads++; return reads, nil }, nil)
	for range 5 {
		if _, err := file.get(); err != nil {
			t.Error(err)
		}
	}
	if reads != 1 {
		t.Errorf("read %d times", reads)
	}
}

// A file that is broken at the start fails what needs it, and nothing goes round it.
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
				access = Access{} // with an own authority they are not needed
			}
			for range 2 {
				_, err := c.Resolve(t.Context(), Source{URL: r.url(), Ref: Reference{Tag: "1.0.0"}, Access: access})
				if !errors.Is(err, ocierr.ErrInvalidAccess) || !strings.Contains(err.Error(), path) ||
					!strings.Contains(err.Error(), hintOperator) {
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
			// A missing file is not an error, before it exists and after it was removed.
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
	// A HelmOp's own credential goes before the controller's.
	src.Access.DockerConfigs = [][]byte{dockerConfigFor(r.host(), testUser, "planted-wrong")}
	resolve(ocierr.ErrUnauthorized)
}
