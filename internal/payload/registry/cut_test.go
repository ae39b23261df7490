// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// storeFault is a way in which a registry fails.
type storeFault struct {
	registry.Fault
	// kind is the error of a call to the store if the registry continues to fail; nil if any result is valid.
	kind error
}

var storeFaults = map[string]storeFault{
	"request lost": {registry.Fault{Mode: registry.Cut}, ocierr.ErrUnreachable},
	"answer lost":  {registry.Fault{Mode: registry.LoseAnswer}, ocierr.ErrUnreachable},
	"cut off":      {registry.Fault{Mode: registry.Truncate}, nil},
	"changed":      {registry.Fault{Mode: registry.Corrupt}, nil},
	"silent":       {registry.Fault{Mode: registry.Hang}, ocierr.ErrUnreachable},
	"broken":       {registry.Fault{Mode: registry.Status, Code: http.StatusInternalServerError}, ocierr.ErrUnreachable},
	"busy":         {registry.Fault{Mode: registry.Status, Code: http.StatusTooManyRequests}, ocierr.ErrRateLimited},
	"forbidden":    {registry.Fault{Mode: registry.Status, Code: http.StatusForbidden}, ocierr.ErrUnauthorized},
	"unsupported":  {registry.Fault{Mode: registry.Status, Code: http.StatusMethodNotAllowed}, ocierr.ErrUnexpected},
	"odd":          {registry.Fault{Mode: registry.Status, Code: http.StatusTeapot}, ocierr.ErrUnexpected},
}

// ownRepository returns a repository with the name of the test.
func (b *bench) ownRepository(t *testing.T) Repository {
	t.Helper()
	_, name, _ := strings.Cut(t.Name(), "/")
	return b.repository("records/" + strings.ToLower(strings.NewReplacer("/", "-", ",", "", " ", "-").Replace(name)))
}

func (b *bench) pathOf(repository Repository) string {
	return strings.TrimPrefix(repository.URL, "oci://"+b.registry.Host()+"/")
}

const (
	// impatience is the timeout for registries that do not answer, and patience for all others. It must also suffice for
	// the requests that such a registry answers before.
	impatience, patience = 5 * time.Second, time.Minute
)

// timeout returns how long a call waits for a registry with this fault.
func (f storeFault) timeout() time.Duration {
	if f.Mode == registry.Hang {
		return impatience
	}
	return patience
}

// newcomer returns the store of a new process, which has no state about the registry.
func (b *bench) newcomer(t *testing.T, repository Repository, timeout time.Duration) payload.Store {
	t.Helper()
	client, err := oci.New(oci.Options{Dir: t.TempDir(), Timeout: timeout, PullTimeout: timeout})
	check(t, err)
	t.Cleanup(client.Close)
	return New(client).Store(Options{Cluster: cluster, New: &repository})
}

// failAt makes the registry fail at a request for a repository, counted from 1. Unless once is set, the registry also
// fails at all later requests. At the end, it checks that this request was made.
func (b *bench) failAt(t *testing.T, repository Repository, fault storeFault, at int, once bool) func() {
	t.Helper()
	path, seen := b.pathOf(repository), 0
	fault.Match = func(r registry.Request) bool {
		// An unauthenticated client sends one request without a credential first.
		if r.Repository != path || r.Authorization == "" {
			return false
		}
		seen++
		return seen == at || seen > at && !once
	}
	end, err := b.registry.Fail(fault.Fault)
	check(t, err)
	return func() {
		t.Helper()
		end()
		if seen < at {
			t.Fatalf("%d requests", seen)
		}
	}
}

// TestStoreOnRegistryFaults makes each request of each call fail, except deletions: only this request, or also all
// later ones. A failed call returns the reason without secrets. A successful call has done its work. The next try
// succeeds.
func TestStoreOnRegistryFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry.Options{})
	for name, fault := range storeFaults {
		for call, requests := range map[string]int{"prepare": 2, "put": 3, "get": 1} {
			for at := 1; at <= requests; at++ {
				for _, once := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s, %s at request %d, once %t", name, call, at, once), func(t *testing.T) {
						t.Parallel()
						cutCall(t, b, call, fault, at, once)
					})
				}
			}
		}
	}
}

func cutCall(t *testing.T, b *bench, call string, fault storeFault, at int, once bool) {
	t.Helper()
	repository := b.ownRepository(t)
	data, name := random(t, 64<<10), demo
	var place payload.Place
	if call != "prepare" {
		store := b.newcomer(t, repository, patience)
		check(t, store.Prepare(t.Context()))
		var err error
		place, err = store.Put(t.Context(), name, data)
		check(t, err)
	}
	name.ID = strings.Repeat("cd", 16)
	try := func(store payload.Store) error {
		switch call {
		case "prepare":
			return store.Prepare(t.Context())
		case "put":
			made, err := store.Put(t.Context(), name, data)
			if err == nil {
				place = made
			}
			return err
		default:
			got, err := store.Get(t.Context(), place)
			if err == nil && !bytes.Equal(got, data) {
				t.Error("it is something else")
			}
			return err
		}
	}
	end := b.failAt(t, repository, fault, at, once)
	err := try(b.newcomer(t, repository, fault.timeout()))
	end()
	if !once && fault.kind != nil && !errors.Is(err, fault.kind) {
		t.Errorf("the store says %v, want %v", err, fault.kind)
	}
	if err != nil && strings.Contains(err.Error(), b.registry.Password()) {
		t.Errorf("the password is in %v", err)
	}
	_, missing := b.registry.Manifest(t.Context(), b.pathOf(repository), tagOf(cluster, name))
	// If the registry continues to fail, content that it stored without a response cannot be deleted.
	if isThere := missing == nil; call == "put" && isThere != (err == nil) &&
		(once || fault.Mode == registry.Status || !isThere) {
		t.Errorf("the record is there: %t, and the store says %v", isThere, err)
	}
	store := b.newcomer(t, repository, patience)
	check(t, try(store))
	if call == "prepare" {
		_, err = store.Put(t.Context(), name, data)
		check(t, err)
		return
	}
	got, err := store.Get(t.Context(), place)
	check(t, err)
	if !bytes.Equal(got, data) {
		t.Error("what was put is something else")
	}
}
