// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestKeptKindsAreBounded checks that the results of all clusters together are bounded, and that the clusters with the
// largest results lose them first.
func TestKeptKindsAreBounded(t *testing.T) {
	t.Parallel()
	shared := NewSharedState(DefaultMemory())
	shared.library.kept = newKeptKinds(1 << 20)
	discover := func(version string, resources int) *cluster {
		served := servedBy{version: version}
		for i := range resources {
			served.kinds = append(served.kinds, fmt.Sprintf("Thing%d", i))
		}
		server := httptest.NewServer(served)
		t.Cleanup(server.Close)
		kept, err := NewCluster("", &rest.Config{Host: server.URL}, shared)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(kept.close)
		if _, err := kept.Kinds.current(false); err != nil {
			t.Fatal(err)
		}
		return kept
	}
	keeps := func(c *cluster) bool {
		c.Kinds.Mu.Lock()
		defer c.Kinds.Mu.Unlock()
		return c.Kinds.known != nil
	}
	normal := []*cluster{discover("v1.36.0", 10), discover("v1.36.0", 10)}
	var large []*cluster
	for i := range 6 {
		large = append(large, discover(fmt.Sprintf("v1.35.%d", i), 300))
	}
	count := 0
	for _, one := range large {
		if keeps(one) {
			count++
		}
	}
	if count != 2 || !keeps(large[5]) || !keeps(normal[0]) || !keeps(normal[1]) {
		t.Errorf("%d large results are kept", count)
	}
	if shared.library.kept.bytes > 1<<20 {
		t.Errorf("%d bytes are kept", shared.library.kept.bytes)
	}
	for _, one := range append(large, normal...) {
		one.close()
	}
	if left := shared.library.kept; left.bytes != 0 || len(left.byKinds) != 0 || len(left.byResult) != 0 {
		t.Errorf("closed clusters keep %d bytes", left.bytes)
	}
}
