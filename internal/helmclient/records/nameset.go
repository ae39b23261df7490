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

package records

import (
	"sync"
)

// NameSet is a bounded set of names. It is safe for concurrent use.
type NameSet struct {
	mu    sync.Mutex
	names map[string]bool
}

// maxNames bounds a NameSet.
const maxNames = 1000

// NewNameSet returns an empty set.
func NewNameSet() *NameSet { return &NameSet{names: map[string]bool{}} }

// Add adds a name. A set that is full is emptied first.
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
