// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstorage

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxLeft is the largest number of HelmOps in a Left.
	maxLeft = 4096

	// leftAgain is the time after which a HelmOp in a Left is reported again: by default, an API server keeps Events for
	// an hour.
	leftAgain = time.Hour
)

// Left holds the HelmOps with records that could not be deleted. The zero value is empty. It is safe for concurrent
// use.
type Left struct {
	mu sync.Mutex
	// reported has the time of the last report about each HelmOp.
	reported *lru.LRU[types.UID, time.Time]
}

// Add adds a HelmOp, and returns whether to report it: if it is new, or was last reported an hour ago.
func (l *Left) Add(helmOp types.UID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reported == nil {
		// NewLRU fails only if the size is not positive.
		l.reported, _ = lru.NewLRU[types.UID, time.Time](maxLeft, nil)
	}
	if last, isKnown := l.reported.Get(helmOp); isKnown && now.Sub(last) < leftAgain {
		return false
	}
	l.reported.Add(helmOp, now)
	return true
}
