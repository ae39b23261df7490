// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// deletionRequests is the number of requests of a deletion: a read of the manifest, and its deletion.
const deletionRequests = 2

// TestStoreDeleteOnRegistryFaults makes the registry fail at each request of a deletion: only at this request, or also
// at all later ones. If the call reports a deletion, the payload is deleted. Otherwise the next try deletes it. No
// other payload is ever deleted.
func TestStoreDeleteOnRegistryFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry.Options{})
	for name, fault := range storeFaults {
		for at := 1; at <= deletionRequests; at++ {
			for _, once := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s at request %d, once %t", name, at, once), func(t *testing.T) {
					t.Parallel()
					cutDeletion(t, b, fault, at, once)
				})
			}
		}
	}
}

// TestStoreDeletesUnconfirmedPush checks that a pushed payload without a confirmation is deleted as soon as the
// registry answers.
func TestStoreDeletesUnconfirmedPush(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry.Options{})
	store := b.store(cluster, "records/a")
	check(t, store.Prepare(t.Context()))
	end, err := b.registry.Fail(registry.Fault{Mode: registry.LoseAnswer, Match: func(r registry.Request) bool {
		return r.Method == http.MethodPut && r.Reference != "" && r.Authorization != ""
	}})
	check(t, err)
	if _, err := store.Put(t.Context(), demo, random(t, 1<<10)); !errors.Is(err, ocierr.ErrUnreachable) {
		t.Errorf("%v", err)
	}
	end()
	if _, err := b.registry.Manifest(t.Context(), "records/a", tagOf(cluster, demo)); err == nil {
		t.Error("it is still there")
	}
}

func cutDeletion(t *testing.T, b *bench, fault storeFault, at int, once bool) {
	t.Helper()
	repository := b.ownRepository(t)
	store := b.newcomer(t, repository, patience)
	check(t, store.Prepare(t.Context()))
	place, err := store.Put(t.Context(), demo, random(t, 1<<10))
	check(t, err)
	next := demo
	next.ID = strings.Repeat("cd", 16)
	kept, err := store.Put(t.Context(), next, random(t, 1<<10))
	check(t, err)

	failing := b.newcomer(t, repository, fault.timeout())
	end := b.failAt(t, repository, fault, at, once)
	err = failing.Delete(t.Context(), place, demo)
	end()
	isThere := func(place payload.Place) bool {
		_, err := b.registry.Manifest(t.Context(), b.pathOf(repository), place.Manifest)
		return err == nil
	}
	if err == nil && isThere(place) {
		t.Error("it is said to be deleted, and is there")
	}
	if errors.Is(err, payload.ErrMissing) || errors.Is(err, payload.ErrNotAllowed) {
		t.Errorf("the store says %v", err)
	}
	if err != nil && strings.Contains(err.Error(), b.registry.Password()) {
		t.Errorf("the password is in %v", err)
	}
	// This is an hour later, in a new process that has no record of the refusal.
	store = b.newcomer(t, repository, patience)
	check(t, store.Delete(t.Context(), place, demo))
	if isThere(place) {
		t.Error("the next try has not deleted it")
	}
	if !isThere(kept) {
		t.Error("another record is gone")
	}
	_, err = store.Get(t.Context(), kept)
	check(t, err)
}
