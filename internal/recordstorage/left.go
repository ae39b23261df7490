// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstorage

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/apimachinery/pkg/types"
)

// maxLeft is the largest number of HelmOps in a Left.
const maxLeft = 4096

// Left holds the HelmOps with records that could not be deleted. The zero value is empty. It is safe for concurrent
// use.
type Left struct {
	mu      sync.Mutex
	helmOps *lru.LRU[types.UID, struct{}]
}

// Add adds a HelmOp, and reports whether it is new.
func (l *Left) Add(helmOp types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.helmOps == nil {
		// NewLRU fails only if the size is not positive.
		l.helmOps, _ = lru.NewLRU[types.UID, struct{}](maxLeft, nil)
	}
	_, isKnown := l.helmOps.Get(helmOp)
	l.helmOps.Add(helmOp, struct{}{})
	return !isKnown
}
