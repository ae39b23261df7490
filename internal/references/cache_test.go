// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// TestContentsAreBounded checks that the cache of contents has a limit in bytes, which counts all keys of an object.
func TestContentsAreBounded(t *testing.T) {
	t.Parallel()
	const size, limit = 100 << 10, 1 << 20
	var objects []client.Object
	for i := range 20 {
		objects = append(objects, controllertest.Opaque(fmt.Sprint(i),
			map[string]string{"used": "x", "unused": strings.Repeat("x", size)}))
	}
	c := controllertest.ClientOf(objects...)
	reader := NewReader(c, c).WithCaches(limit)
	for i := range 20 {
		if _, err := reader.ReadKey(t.Context(), apiutil.KindSecret, "n", fmt.Sprint(i), "used"); err != nil {
			t.Fatal(err)
		}
	}
	if entries, bytes := reader.contents.Stats(); entries != limit/size || bytes > limit {
		t.Errorf("%d objects with %d bytes are kept, want %d", entries, bytes, limit/size)
	}
}
