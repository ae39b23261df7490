// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// TestSchedule compares a schedule with a search through all keys, for random changes.
func TestSchedule(t *testing.T) {
	t.Parallel()
	random, began := rand.New(rand.NewPCG(1, 1)), time.Now()
	var s schedule[int]
	all := map[int]time.Time{}
	for step := range 5000 {
		k := random.IntN(50)
		if random.IntN(3) == 0 {
			s.remove(k)
			delete(all, k)
		} else {
			// No two keys are due at the same time.
			all[k] = began.Add(time.Duration(random.IntN(1000)*50 + k))
			s.set(k, all[k])
		}
		first, found := 0, false
		for candidate, due := range all {
			if !found || due.Before(all[first]) {
				first, found = candidate, true
			}
		}
		got, due, ok := s.first()
		if ok != found || ok && (got != first || !due.Equal(all[first])) || s.len() != len(all) {
			t.Fatalf("step %d: %d of %d keys is first, not %d of %d", step, got, s.len(), first, len(all))
		}
		if due, ok := s.due(k); ok != !all[k].IsZero() || !due.Equal(all[k]) {
			t.Fatalf("step %d: key %d is due at %s, not %s", step, k, due, all[k])
		}
	}
}

// TestStreamsAreAdmittedInOrder checks that streams beyond the limit begin in the order in which they came, and that
// ended streams do not wait.
func TestStreamsAreAdmittedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{})
		defer w.running.Wait()
		defer w.cancel()
		w.maxStreams = 1
		l, err := newLink(w, linkID{}, Connection{Config: &rest.Config{}})
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		r := newRelease(key("r"), 0, Plan{Objects: []inventory.Ref{hostileConfig}, Drift: true})
		var streams []*stream
		for i := range 20 {
			s := l.exactLocked(streamKey{resource: secrets.GroupVersionResource, namespace: fmt.Sprint(i)})
			s.joinLocked(objectKey{}, target{release: r}, false)
			// For each object that joins, the stream is asked to begin. This costs nothing, and does not change the order.
			before := s.failure.err
			s.joinLocked(objectKey{}, target{release: r}, false)
			if s.failure.err != before { //nolint:errorlint // whether it is the same one
				t.Errorf("stream %d failed again", i)
			}
			streams = append(streams, s)
			<-time.After(time.Millisecond)
		}
		for i, s := range streams {
			if s.cancel == nil {
				t.Fatalf("stream %d has not begun", i)
			}
			for _, later := range streams[i+1:] {
				if later.cancel != nil || !errors.Is(later.failure.err, errTooManyStreams) {
					t.Fatalf("while stream %d runs, another one has begun: %+v", i, later.key)
				}
			}
			s.leaveLocked(r)
		}
		last := l.exactLocked(streamKey{resource: secrets.GroupVersionResource, namespace: "last"})
		last.joinLocked(objectKey{}, target{release: r}, false)
		waiting := l.exactLocked(streamKey{resource: secrets.GroupVersionResource, namespace: "waiting"})
		waiting.joinLocked(objectKey{}, target{release: r}, false)
		waiting.leaveLocked(r)
		if got := l.waiting.len(); got > 0 || l.begun != 1 {
			t.Errorf("%d streams wait, %d have begun", got, l.begun)
		}
	})
}
