/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// newRecords returns the store of a fresh namespace, as an action opens it.
func (b *bench) newRecords() *records.Store {
	b.t.Helper()
	conn, err := b.client.connections.Get(b.target)
	if err != nil {
		b.t.Fatal(err)
	}
	return recordsOf(b.t.Context(), conn, b.namespace, b.target.Storage, nil)
}

// TestIntegrationObservedRecords holds that an action takes what was observed for its history, once, and not after a write.
func TestIntegrationObservedRecords(t *testing.T) {
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
