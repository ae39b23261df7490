// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package driftmemory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

func snapshotOf(fingerprint string, objects map[inventory.Ref]uint64) *objectwatch.Snapshot {
	snapshot := &objectwatch.Snapshot{Synced: true, Fingerprint: fingerprint,
		Objects: map[inventory.Ref]objectwatch.State{}}
	for ref, f := range objects {
		snapshot.Objects[ref] = objectwatch.State{Exists: f != 0, Fingerprint: f}
	}
	return snapshot
}

// update records a comparison of objects. Some of them failed and some differ.
func update(m *Memory, snapshot *objectwatch.Snapshot, now time.Time, compared, failed []inventory.Ref,
	differ ...drift.Difference,
) {
	found := drift.Comparison{Compared: compared, Differences: differ}
	for _, ref := range failed {
		found.Failed = append(found.Failed, &drift.ObjectError{Ref: ref, Err: errors.New("cut")})
	}
	m.Update(nil, nil, found, snapshot, now)
}

// TestSuspects checks which objects are compared after events, failed and successful comparisons, corrections, and
// changes of the rules or the revision.
func TestSuspects(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	before := snapshotOf("a", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 2})
	m := &Memory{}
	m.Begin(1, "", nil, before)
	if got := m.Suspects(before, true, now); len(got) != 2 {
		t.Fatalf("no object was compared yet: %v", got)
	}
	update(m, before, now, []inventory.Ref{controllertest.Deployment}, nil)
	if got := m.Suspects(before, true, now); len(got) != 1 || !got[controllertest.ConfigMap] || m.Left(before) != 1 {
		t.Fatalf("one object was not compared: %v", got)
	}
	update(m, before, now, []inventory.Ref{controllertest.ConfigMap}, nil)
	if got := m.Suspects(before, true, now); len(got) != 0 || m.Left(before) != 0 {
		t.Fatalf("nothing changed: %v", got)
	}

	deleted := snapshotOf("b", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 0})
	if got := m.Suspects(deleted, true, now); len(got) != 1 || !got[controllertest.ConfigMap] {
		t.Fatalf("one object was deleted: %v", got)
	}
	update(m, deleted, now, []inventory.Ref{controllertest.ConfigMap}, nil,
		drift.Difference{Ref: controllertest.ConfigMap, Missing: true})
	if got := m.Suspects(deleted, false, now); len(got) != 0 {
		t.Fatalf("a difference that is only reported is compared again: %v", got)
	}
	if got := m.Suspects(deleted, true, now); !got[controllertest.ConfigMap] {
		t.Fatalf("a difference is not compared before its correction: %v", got)
	}
	for range 3 {
		m.Corrections.Corrected(controllertest.ConfigMap, now)
	}
	if got := m.Suspects(deleted, true, now); len(got) != 0 || m.RetryIn(deleted, true, now) <= 0 {
		t.Fatalf("a contested object is not held: %v, for %v", got, m.RetryIn(deleted, true, now))
	}
	m.BeginCheck()
	if got := m.Suspects(deleted, true, now); len(got) != 2 {
		t.Fatalf("a full check does not compare all objects: %v", got)
	}

	deleted.Objects[controllertest.ConfigMap] = objectwatch.State{Exists: true, Fingerprint: 9, OptOut: true}
	update(m, deleted, now, []inventory.Ref{controllertest.Deployment}, nil)
	if got := m.Suspects(deleted, true, now); len(got) != 0 || len(m.Differences()) != 0 {
		t.Fatalf("an object that opted out: %v, %v", got, m.Differences())
	}
	m.Begin(1, "other rules", nil, before)
	if got := m.Suspects(before, true, now); len(got) != 2 {
		t.Fatalf("other rules: %v", got)
	}
	update(m, before, now, []inventory.Ref{controllertest.ConfigMap, controllertest.Deployment}, nil)
	m.Begin(2, "other rules", nil, before)
	if got := m.Suspects(before, true, now); len(got) != 2 {
		t.Fatalf("not all objects of a new revision are compared: %v", got)
	}
}

// TestFailedComparisonBacksOff checks that the delay after failed comparisons of an object increases, also for a full
// check, and that it is short after the object changed. Other objects are compared meanwhile.
func TestFailedComparisonBacksOff(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	snapshot := snapshotOf("a", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 2})
	m := &Memory{}
	m.Begin(1, "", nil, snapshot)
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		want *= time.Minute
		update(m, snapshot, now, []inventory.Ref{controllertest.Deployment}, []inventory.Ref{controllertest.ConfigMap})
		if got := m.RetryIn(snapshot, true, now); got != want {
			t.Errorf("failure %d: tried again in %s, want %s", i, got, want)
		}
		m.BeginCheck()
		if got := m.Suspects(snapshot, true, now.Add(want-1)); len(got) != 1 || !got[controllertest.Deployment] {
			t.Errorf("failure %d: too early: %v", i, got)
		}
		now = now.Add(want)
		if got := m.Suspects(snapshot, true, now); len(got) != 2 {
			t.Errorf("failure %d: too late: %v", i, got)
		}
	}
	objects := []*unstructured.Unstructured{controllertest.ObjectOf(controllertest.ConfigMap),
		controllertest.ObjectOf(controllertest.Deployment), controllertest.ObjectOf(controllertest.Custom)}
	if got := m.ToCompare(objects, m.Suspects(snapshot, true, now)); !slices.Equal(inventory.FromObjects(got),
		[]inventory.Ref{controllertest.Deployment, controllertest.ConfigMap}) {
		t.Errorf("compared in the order %v", inventory.FromObjects(got))
	}
	update(m, snapshot, now, []inventory.Ref{controllertest.Deployment}, []inventory.Ref{controllertest.ConfigMap})
	changed := snapshotOf("b", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 3})
	if got := m.Suspects(changed, true, now.Add(time.Second)); len(got) != 0 {
		t.Errorf("an event causes another try at once: %v", got)
	}
	if got := m.Suspects(changed, true, now.Add(time.Minute)); !got[controllertest.ConfigMap] {
		t.Errorf("the object changed, and is not compared again: %v", got)
	}
	update(m, changed, now, []inventory.Ref{controllertest.Deployment, controllertest.ConfigMap}, nil)
	if len(m.Uncompared) != 0 || m.Left(changed) != 0 {
		t.Errorf("the object was compared, but: %v", m.Uncompared)
	}
}

// TestFailureForAllObjects checks the delay while no object can be compared: it is at most 5 minutes, BusyRetry if the
// manager is busy, and ends with a new retry request. The failure no longer counts when there is nothing to compare.
func TestFailureForAllObjects(t *testing.T) {
	t.Parallel()
	now, all := time.Unix(1_800_000_000, 0), inventory.Ref{}
	snapshot := snapshotOf("a", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 2})
	m := &Memory{}
	m.Begin(1, "", nil, snapshot)
	update(m, snapshot, now, []inventory.Ref{controllertest.Deployment, controllertest.ConfigMap}, nil)
	changed := snapshotOf("b", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 3})
	check := func(when string, now time.Time, isDue bool) {
		t.Helper()
		if got := m.Suspects(changed, true, now); got[controllertest.ConfigMap] != isDue {
			t.Errorf("%s: to compare are %v", when, got)
		}
	}
	busy := helmerr.New(helmerr.ErrBusy, "no memory is free")
	for range 8 {
		m.Uncompared.Add(all, 0, busy, now)
	}
	if count := m.Uncompared[all].count; count != 0 || m.RetryIn(changed, true, now) != requeue.BusyRetry {
		t.Errorf("a busy manager counts as %d failures, and the next try is due in %s", count,
			m.RetryIn(changed, true, now))
	}
	check("busy", now.Add(requeue.BusyRetry-1), false)
	check("no longer busy", now.Add(requeue.BusyRetry), true)
	for range 8 {
		m.Uncompared.Add(all, 0, errors.New("discovery failed"), now)
	}
	check("after 8 failures", now.Add(5*time.Minute-1), false)
	check("5 minutes later", now.Add(5*time.Minute), true)
	m.RetryFor("")
	check("without a retry request", now, false)
	m.RetryFor("1")
	check("after a retry request", now, true)
	m.Uncompared.Add(all, 0, errors.New("discovery failed"), now)
	m.RetryFor("1")
	check("after the same retry request", now, false)
	if got := m.Suspects(snapshot, true, now); len(got)+len(m.Uncompared) > 0 {
		t.Errorf("nothing is to compare, but: %v, %v", got, m.Uncompared)
	}
}

// TestFailuresAreLimited checks that a message has the errors of at most three objects, and each error once.
func TestFailuresAreLimited(t *testing.T) {
	t.Parallel()
	now, all := time.Unix(1_800_000_000, 0), failures{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		all.Add(inventory.Ref{Name: name}, 0, errors.New(name+strings.Repeat("x", 10000)), now)
	}
	if text := all.String(); len(text) > 4*maxFailureCause || !strings.HasPrefix(text, "ax") ||
		!strings.HasSuffix(text, "; and 2 more objects") {
		t.Errorf("%d characters: %.20s", len(text), text)
	}
	same := failures{}
	for _, name := range []string{"a", "b"} {
		same.Add(inventory.Ref{Name: name}, 0, errors.New("denied"), now)
	}
	if text := same.String(); text != "denied" {
		t.Error(text)
	}
}

// TestRestartedManagerComparesAfterChange checks that a manager compares the objects again if the objects, the Helm
// revision or the ignore rules changed while it did not run.
func TestRestartedManagerComparesAfterChange(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	snapshot := snapshotOf("a", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 2})
	fingerprint := (&Memory{Revision: 4, rules: "r"}).Fingerprint(snapshot)
	for name, tc := range map[string]struct {
		status   *addonsv1.DriftStatus
		revision int
		rules    string
		want     int
	}{
		"nothing changed":   {&addonsv1.DriftStatus{Fingerprint: fingerprint}, 4, "r", 0},
		"something changed": {&addonsv1.DriftStatus{Fingerprint: "b"}, 4, "r", 2},
		"the rules changed": {&addonsv1.DriftStatus{Fingerprint: fingerprint}, 4, "s", 2},
		"another revision":  {&addonsv1.DriftStatus{Fingerprint: fingerprint}, 5, "r", 2},
		"something differs": {&addonsv1.DriftStatus{Fingerprint: fingerprint, Differing: 1}, 4, "r", 2},
		"no status":         {nil, 4, "r", 2},
		"no fingerprint":    {&addonsv1.DriftStatus{}, 4, "r", 2},
	} {
		m := &Memory{}
		m.Begin(tc.revision, tc.rules, tc.status, snapshot)
		if got := m.Suspects(snapshot, true, now); len(got) != tc.want {
			t.Errorf("%s: %d to compare, want %d", name, len(got), tc.want)
		}
	}
}

func TestIsFullCheckDue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		since time.Duration
		want  bool
	}{
		"just checked":             {0, false},
		"checked before":           {50 * time.Minute, false},
		"checked long ago":         {2 * time.Hour, true},
		"checked by a clock ahead": {-2 * time.Hour, true},
	} {
		release := &addonsv1.HelmOpRelease{}
		release.Status.Drift = &addonsv1.DriftStatus{LastCheckedAt: metav1.NewTime(now.Add(-tc.since))}
		if got := IsFullCheckDue(release, now); got != tc.want {
			t.Errorf("%s: due %t", name, got)
		}
	}
	if !IsFullCheckDue(&addonsv1.HelmOpRelease{}, now) {
		t.Error("the first check is not due")
	}
}

func TestJitterIsConstantAndSpread(t *testing.T) {
	t.Parallel()
	low, high := 0, 0
	for i := range 200 {
		uid := types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		j := apiutil.Jitter(release)
		if j < 0 || j > 1 || j != apiutil.Jitter(release) {
			t.Fatalf("jitter %v", j)
		}
		if j < 0.5 {
			low++
		} else {
			high++
		}
		if interval := Interval(release); interval < time.Hour || interval > 66*time.Minute {
			t.Fatalf("interval %v", interval)
		}
	}
	if low < 50 || high < 50 {
		t.Errorf("%d low, %d high", low, high)
	}
}
