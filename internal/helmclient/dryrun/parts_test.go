// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
)

// TestPartsWaitForMemory checks that the objects of a rendering are parsed when memory is free, also if the context of
// the rendering has ended. The memory is reserved until the objects are used.
func TestPartsWaitForMemory(t *testing.T) {
	t.Parallel()
	budget := actionmemory.NewBudget(64 << 20)
	other := budget.Lease(actionmemory.Owner{})
	if err := other.Records(budget.Total()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	engine := &Engine{memory: budget}
	result := Result{
		Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("x", 1<<20) + "}\n",
		within:   engine.within(ended, actionmemory.Owner{}),
	}
	go func() {
		for budget.Waiting() == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		other.Release()
	}()
	used, held := 0, int64(0)
	err := result.Objects(func(objects []*unstructured.Unstructured) {
		used, held = used+len(objects), budget.Used()
	})
	if err != nil || used != 1 || held < 1<<20 || budget.Used() != 0 {
		t.Errorf("%d objects with %d bytes, %d bytes are left: %v", used, held, budget.Used(), err)
	}
}
