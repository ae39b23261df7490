// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
)

// TestExpectedObject checks that reads of an expected object send no request, and which responses to a change count as
// a refusal.
func TestExpectedObject(t *testing.T) {
	t.Parallel()
	for status, isRefusal := range map[int]bool{
		http.StatusOK: false, http.StatusConflict: true, http.StatusNotFound: true, http.StatusUnprocessableEntity: true,
		http.StatusForbidden: false, http.StatusInternalServerError: false,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			s := newCachedServer(t)
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPatch {
					w.WriteHeader(status)
				}
				return r.Method == http.MethodPatch
			}
			getter := &Getter{Config: &rest.Config{Transport: s.cache}}
			end, ok := getter.Expect("/k8s/one"+cachedObject, []byte("expected"))
			if !ok {
				t.Fatal("the object cannot be expected")
			}
			for range 2 {
				if _, body := s.do(http.MethodGet, cachedObject); body != "expected" {
					t.Errorf("the read returns %q", body)
				}
			}
			if _, body := s.do(http.MethodGet, otherObject); body != "1" {
				t.Errorf("the read of another object returns %q", body)
			}
			if got, _ := s.do(http.MethodPatch, cachedObject); got != status {
				t.Errorf("the change has the status %d, want %d", got, status)
			}
			if got := end(); got != isRefusal {
				t.Errorf("the change was refused: %t, want %t", got, isRefusal)
			}
			if _, body := s.do(http.MethodGet, cachedObject); body != "3" {
				t.Errorf("the read after the end returns %q", body)
			}
		})
	}
}

// TestExpectedMissing checks that reads of an object that is expected to be missing send no request until the next
// write, or until the expectation ends.
func TestExpectedMissing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *cachedServer, getter *Getter){
		"another write":          func(s *cachedServer, _ *Getter) { s.do(http.MethodPost, otherObject) },
		"the end of expectation": func(_ *cachedServer, getter *Getter) { getter.ExpectMissing(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCachedServer(t)
			getter := &Getter{Config: &rest.Config{Transport: s.cache}}
			if !getter.ExpectMissing([]string{"/k8s/one" + cachedObject}) {
				t.Fatal("the object cannot be expected to be missing")
			}
			for range 2 {
				if status, body := s.do(http.MethodGet, cachedObject); status != http.StatusNotFound {
					t.Errorf("the read returns %d and %q", status, body)
				}
			}
			if status, _ := s.do(http.MethodGet, otherObject); status != http.StatusOK || s.served.Load() != 1 {
				t.Errorf("the read of another object returns %d after %d requests", status, s.served.Load())
			}
			end(s, getter)
			if status, _ := s.do(http.MethodGet, cachedObject); status != http.StatusOK {
				t.Errorf("the read afterwards returns %d", status)
			}
		})
	}
}

// TestExpectedNeedsCache checks that a plan expects no objects.
func TestExpectedNeedsCache(t *testing.T) {
	t.Parallel()
	getter := &Getter{Config: &rest.Config{Transport: http.DefaultTransport}}
	if _, ok := getter.Expect("/", nil); ok || getter.ExpectMissing([]string{"/"}) {
		t.Error("an object is expected without a cache")
	}
}
