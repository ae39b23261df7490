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

package controllers

import "testing"

func TestActionSlots(t *testing.T) {
	t.Parallel()
	s := newActionSlots(8)
	var held []func()
	take := func(cluster, helmOp string, want bool) {
		t.Helper()
		done, ok := s.acquire(cluster, helmOp)
		if ok != want {
			t.Fatalf("acquire(%s, %s) = %v, want %v", cluster, helmOp, ok, want)
		}
		if ok {
			held = append(held, done)
		}
	}
	for range slotsPerCluster {
		take("slow", "a", true)
	}
	take("slow", "b", false) // The Cluster has all that it gets.
	take("fine", "a", true)
	take("fine", "a", true)
	take("other", "a", false) // Six of eight workers: the HelmOp has all that it gets.
	take("other", "b", true)
	for _, done := range held {
		done()
	}
	take("slow", "a", true)
	held[len(held)-1]()
	if len(s.in) != 0 || len(s.helmOp) != 0 {
		t.Errorf("something is left: %v, %v", s.in, s.helmOp)
	}
	if _, ok := newActionSlots(1).acquire("c", "h"); !ok {
		t.Error("a single worker gets no slot")
	}
}
