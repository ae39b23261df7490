// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

func TestResolutionSchedule(t *testing.T) {
	key := referenceKey{helmOp: types.NamespacedName{Namespace: "default", Name: "calico"}}
	usual := lookupKey{source: "s", access: "a"}
	tag := scheduleEntry{lookupKey: usual}
	digest := scheduleEntry{lookupKey: usual, fixed: true}
	requested := scheduleEntry{lookupKey: lookupKey{source: "s", access: "a", request: "1"}}
	due := func(s *schedule, current lookupKey, known bool, after time.Duration) (bool, bool) {
		wait, never := s.due(key, current, known, controllertest.Noon.Add(after))
		return wait <= 0 && !never, never
	}

	tests := map[string]struct {
		before    func(*schedule)
		current   lookupKey
		known     bool
		after     time.Duration
		wantNow   bool
		wantNever bool
	}{
		"first lookup": {current: usual, wantNow: true},
		"within the interval": {
			before:  func(s *schedule) { s.record(key, tag, time.Minute, controllertest.Noon, false, 0) },
			current: usual, known: true, after: 59 * time.Second},
		"the interval is over": {
			before:  func(s *schedule) { s.record(key, tag, time.Minute, controllertest.Noon, false, 0) },
			current: usual, known: true, after: 67 * time.Second, wantNow: true},
		"another source": {
			before:  func(s *schedule) { s.record(key, tag, time.Minute, controllertest.Noon, false, 0) },
			current: lookupKey{source: "other", access: "a"}, known: true, wantNow: true},
		"other credentials": {
			before:  func(s *schedule) { s.record(key, tag, time.Minute, controllertest.Noon, true, 0) },
			current: lookupKey{source: "s", access: "other"}, wantNow: true},
		"success without a known artifact": {
			before:  func(s *schedule) { s.record(key, tag, time.Minute, controllertest.Noon, false, 0) },
			current: usual, wantNow: true},
		"just failed": {
			before:  func(s *schedule) { s.record(key, tag, time.Hour, controllertest.Noon, true, 0) },
			current: usual, after: 4 * time.Second},
		"within Retry-After": {
			before:  func(s *schedule) { s.record(key, tag, time.Hour, controllertest.Noon, true, time.Minute) },
			current: usual, after: 59 * time.Second},
		"after Retry-After": {
			before:  func(s *schedule) { s.record(key, tag, time.Hour, controllertest.Noon, true, time.Minute) },
			current: usual, after: time.Minute, wantNow: true},
		"requested": {
			before:  func(s *schedule) { s.record(key, tag, time.Hour, controllertest.Noon, false, 0) },
			current: lookupKey{source: "s", access: "a", request: "1"}, known: true, after: time.Second, wantNow: true},
		"requested and done": {
			before:  func(s *schedule) { s.record(key, requested, time.Hour, controllertest.Noon, false, 0) },
			current: lookupKey{source: "s", access: "a", request: "1"}, known: true, after: time.Second},
		"request removed": {
			before:  func(s *schedule) { s.record(key, requested, time.Hour, controllertest.Noon, false, 0) },
			current: usual, known: true, after: time.Second},
		"digest, requested": {
			before:  func(s *schedule) { s.record(key, digest, time.Minute, controllertest.Noon, false, 0) },
			current: lookupKey{source: "s", access: "a", request: "1"}, known: true, after: time.Second, wantNow: true},
		"failed, after the wait": {
			before:  func(s *schedule) { s.record(key, tag, time.Hour, controllertest.Noon, true, 0) },
			current: usual, after: 6 * time.Second, wantNow: true},
		"digest is never looked up again": {
			before:  func(s *schedule) { s.record(key, digest, time.Minute, controllertest.Noon, false, 0) },
			current: usual, known: true, after: 24 * time.Hour, wantNever: true},
		"failed digest": {
			before:  func(s *schedule) { s.record(key, digest, time.Minute, controllertest.Noon, true, 0) },
			current: usual, after: time.Minute, wantNow: true},
		"forgotten": {
			before: func(s *schedule) {
				s.record(key, tag, time.Minute, controllertest.Noon, false, 0)
				s.forget(key.helmOp)
			},
			current: usual, known: true, wantNow: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSchedule()
			if tc.before != nil {
				tc.before(s)
			}
			now, never := due(s, tc.current, tc.known, tc.after)
			if now != tc.wantNow || never != tc.wantNever {
				t.Errorf("now, never = %v, %v, want %v, %v", now, never, tc.wantNow, tc.wantNever)
			}
		})
	}
}

// TestResolutionScheduleKeepsLastResult checks that a result is valid until the inputs of the lookup change. A cache
// that is older than the status must not cause another request or restore an older result.
func TestResolutionScheduleKeepsLastResult(t *testing.T) {
	s := newSchedule()
	key := referenceKey{helmOp: types.NamespacedName{Name: "calico"}}
	entry := scheduleEntry{lookupKey: lookupKey{source: "s"}}
	expect := func(source, wantDigest string, wantFailing bool) {
		t.Helper()
		artifact := s.lastArtifact(key, source)
		_, failing, _ := s.lastResult(key, lookupKey{source: source})
		digest := ""
		if artifact != nil {
			digest = artifact.Digest
		}
		if digest != wantDigest || failing != wantFailing {
			t.Errorf("lastArtifact(%s) = %q, %v, want %q, %v", source, digest, failing, wantDigest, wantFailing)
		}
	}
	s.record(key, entry, time.Hour, controllertest.Noon, false, 0)
	artifact := &addonsv1.ArtifactStatus{ResolvedArtifact: addonsv1.ResolvedArtifact{Digest: "sha256:1"}}
	s.setArtifact(key, artifact)
	artifact.Digest = "changed by the caller"
	expect("s", "sha256:1", false)
	expect("other", "", false)
	s.record(key, entry, time.Hour, controllertest.Noon, true, 0)
	expect("s", "sha256:1", true)
	s.record(key, scheduleEntry{lookupKey: lookupKey{source: "other"}}, time.Hour, controllertest.Noon, true, 0)
	expect("s", "", false)
	expect("other", "", true)
	s.forget(key.helmOp)
	expect("other", "", false)
}

func TestResolutionScheduleBacksOff(t *testing.T) {
	s := newSchedule()
	key := referenceKey{helmOp: types.NamespacedName{Name: "calico"}}
	entry := scheduleEntry{lookupKey: lookupKey{source: "s"}}
	expect := func(what string, got, want time.Duration) {
		t.Helper()
		if most := want + time.Duration(float64(want)*requeue.IntervalJitter); got < want || got > most {
			t.Errorf("%s: wait %s, want %s to %s", what, got, want, most)
		}
	}
	for i, seconds := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		got := s.record(key, entry, time.Hour, controllertest.Noon, true, 0)
		expect(fmt.Sprintf("failure %d", i+1), got, seconds*time.Second)
	}
	expect("a short interval bounds the wait", s.record(key, entry, 30*time.Second, controllertest.Noon, true, 0),
		30*time.Second)
	expect("a very short interval", s.record(key, entry, time.Second, controllertest.Noon, true, 0),
		requeue.MinResolveRetry)
	s.record(key, entry, time.Hour, controllertest.Noon, false, 0)
	expect("the first failure after a success", s.record(key, entry, time.Hour, controllertest.Noon, true, 0),
		requeue.MinResolveRetry)
	if got := s.record(key, entry, time.Hour, controllertest.Noon, true, time.Minute); got != time.Minute {
		t.Errorf("the registry requested a minute, the wait is %s", got)
	}
}
