// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"sync"
)

// NameSet is a bounded set of names. It is safe for concurrent use.
type NameSet struct {
	mu    sync.Mutex
	names map[string]bool
}

// maxNames is the maximum number of names in a NameSet.
const maxNames = 1000

// NewNameSet returns an empty set.
func NewNameSet() *NameSet { return &NameSet{names: map[string]bool{}} }

// Add adds a name. It first removes all names if the set is full.
func (s *NameSet) Add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) >= maxNames {
		clear(s.names)
	}
	s.names[name] = true
}

// Has reports whether a name was added.
func (s *NameSet) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}
