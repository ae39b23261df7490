// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestObjects(t *testing.T) {
	t.Parallel()
	var objects Objects[int]
	a, b := types.NamespacedName{Namespace: "x", Name: "a"}, types.NamespacedName{Namespace: "y", Name: "a"}
	if objects.Known(a) != nil {
		t.Error("an object is known before its memory is used")
	}
	*objects.Of(a) = 1
	*objects.Of(b) = 2
	if got := [2]int{*objects.Of(a), *objects.Known(b)}; got != [2]int{1, 2} {
		t.Errorf("got %v", got)
	}
	objects.Drop(a)
	if objects.Known(a) != nil || objects.Known(b) == nil || *objects.Of(a) != 0 {
		t.Errorf("after the drop of one object: %v, %v", objects.Known(a), objects.Known(b))
	}
}
