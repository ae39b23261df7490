// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// newRecords returns a store for a new namespace, as for an action.
func (b *bench) newRecords() *records.Store {
	b.t.Helper()
	conn, err := b.client.connections.Get(b.target)
	if err != nil {
		b.t.Fatal(err)
	}
	return conn.Records(b.t.Context(), b.namespace, b.target.Storage, nil)
}

// TestIntegrationActionUsesObservation checks that an action uses the last observation as its history. It uses the
// observation only once, and not after a write.
func TestIntegrationActionUsesObservation(t *testing.T) {
	b := newBench(t)
	b.createNamespace()
	rls := helmtest.FullRelease()
	rls.Namespace, rls.Version = b.namespace, 1
	if err := b.newRecords().Create(records.NameOf("demo", 1), rls); err != nil {
		t.Fatal(err)
	}
	lists := func(store *records.Store) int {
		b.cutter.Take()
		if _, err := store.Query(map[string]string{"owner": "helm", "name": "demo"}); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, request := range b.cutter.Take() {
			if strings.HasSuffix(request, "/secrets") {
				n++
			}
		}
		return n
	}
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	b.observe(desired)
	if n := lists(b.newRecords()); n != 0 {
		t.Errorf("an action after an observation lists %d times", n)
	}
	if n := lists(b.newRecords()); n != 1 {
		t.Errorf("the action after that lists %d times", n)
	}
	b.observe(desired)
	store := b.newRecords()
	if err := store.Update(records.NameOf("demo", 1), rls); err != nil {
		t.Fatal(err)
	}
	if n := lists(store); n != 1 {
		t.Errorf("after a write it lists %d times", n)
	}
}
