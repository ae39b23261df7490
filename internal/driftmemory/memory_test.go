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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

func snapshotOf(fingerprint string, objects map[inventory.Ref]uint64) *objectwatch.Snapshot {
	snapshot := &objectwatch.Snapshot{Synced: true, Fingerprint: fingerprint,
		Objects: map[inventory.Ref]objectwatch.State{}}
	for ref, f := range objects {
		snapshot.Objects[ref] = objectwatch.State{Exists: f != 0, Fingerprint: f}
	}
	return snapshot
}

// learned lets a memory compare objects of which some cannot be compared and some differ.
func learned(m *Memory, snapshot *objectwatch.Snapshot, now time.Time, compared, failed []inventory.Ref,
	differ ...drift.Difference,
) {
	found := drift.Comparison{Compared: compared, Differences: differ}
	for _, ref := range failed {
		found.Failed = append(found.Failed, &drift.ObjectError{Ref: ref, Err: errors.New("cut")})
	}
	m.Update(nil, nil, found, snapshot, now)
}

func TestDriftMemory(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	before := snapshotOf("a", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 2})
	m := &Memory{}
	m.Begin(1, "", nil, before)
	if got := m.Suspects(before, true, now); len(got) != 2 {
		t.Fatalf("nothing was compared yet: %v", got)
	}
	learned(m, before, now, []inventory.Ref{controllertest.Deployment}, nil)
	if got := m.Suspects(before, true, now); len(got) != 1 || !got[controllertest.ConfigMap] || m.Left(before) != 1 {
		t.Fatalf("one was not come to: %v", got)
	}
	learned(m, before, now, []inventory.Ref{controllertest.ConfigMap}, nil)
	if got := m.Suspects(before, true, now); len(got) != 0 || m.Left(before) != 0 {
		t.Fatalf("nothing changed: %v", got)
	}

	gone := snapshotOf("b", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 0})
	if got := m.Suspects(gone, true, now); len(got) != 1 || !got[controllertest.ConfigMap] {
		t.Fatalf("one is gone: %v", got)
	}
	learned(m, gone, now, []inventory.Ref{controllertest.ConfigMap}, nil,
		drift.Difference{Ref: controllertest.ConfigMap, Missing: true})
	if got := m.Suspects(gone, false, now); len(got) != 0 {
		t.Fatalf("what is only said need not be compared again: %v", got)
	}
	if got := m.Suspects(gone, true, now); !got[controllertest.ConfigMap] {
		t.Fatalf("what is to be corrected is compared first: %v", got)
	}
	for range 3 {
		m.Corrections.Corrected(controllertest.ConfigMap, now)
	}
	if got := m.Suspects(gone, true, now); len(got) != 0 || m.RetryIn(gone, true, now) <= 0 {
		t.Fatalf("what is fought over is left alone: %v, for %v", got, m.RetryIn(gone, true, now))
	}
	m.BeginCheck()
	if got := m.Suspects(gone, true, now); len(got) != 2 {
		t.Fatalf("a whole check looks at all: %v", got)
	}

	gone.Objects[controllertest.ConfigMap] = objectwatch.State{Exists: true, Fingerprint: 9, OptOut: true}
	learned(m, gone, now, []inventory.Ref{controllertest.Deployment}, nil)
	if got := m.Suspects(gone, true, now); len(got) != 0 || len(m.Differences()) != 0 {
		t.Fatalf("an object that opted out: %v, %v", got, m.Differences())
	}
	m.Begin(1, "other rules", nil, before)
	if got := m.Suspects(before, true, now); len(got) != 2 {
		t.Fatalf("other rules: %v", got)
	}
	learned(m, before, now, []inventory.Ref{controllertest.ConfigMap, controllertest.Deployment}, nil)
	m.Begin(2, "other rules", nil, before)
	if got := m.Suspects(before, true, now); len(got) != 2 {
		t.Fatalf("a new revision is compared as a whole: %v", got)
	}
}

// TestUncomparableObjectsAreTriedLessAndLess holds that an object which cannot be compared waits longer and longer,
// also for a whole check, but not long once it changed; and that it keeps no other from being compared.
func TestUncomparableObjectsAreTriedLessAndLess(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	snapshot := snapshotOf("a", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 2})
	m := &Memory{}
	m.Begin(1, "", nil, snapshot)
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		want *= time.Minute
		learned(m, snapshot, now, []inventory.Ref{controllertest.Deployment}, []inventory.Ref{controllertest.ConfigMap})
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
	learned(m, snapshot, now, []inventory.Ref{controllertest.Deployment}, []inventory.Ref{controllertest.ConfigMap})
	changed := snapshotOf("b", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 3})
	if got := m.Suspects(changed, true, now.Add(time.Second)); len(got) != 0 {
		t.Errorf("an event makes it be tried at once: %v", got)
	}
	if got := m.Suspects(changed, true, now.Add(time.Minute)); !got[controllertest.ConfigMap] {
		t.Errorf("it changed, and is not tried: %v", got)
	}
	learned(m, changed, now, []inventory.Ref{controllertest.Deployment, controllertest.ConfigMap}, nil)
	if len(m.Uncompared) != 0 || m.Left(changed) != 0 {
		t.Errorf("it was compared, but: %v", m.Uncompared)
	}
}

// TestFailuresAreBounded holds that a message names a few failures only, and each cause once.
func TestFailuresAreBounded(t *testing.T) {
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

func TestRestartedManagerComparesWhatChanged(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	snapshot := snapshotOf("a", map[inventory.Ref]uint64{controllertest.Deployment: 1, controllertest.ConfigMap: 2})
	for name, tc := range map[string]struct {
		status *addonsv1.DriftStatus
		want   int
	}{
		"as it was":         {&addonsv1.DriftStatus{Fingerprint: "a"}, 0},
		"something changed": {&addonsv1.DriftStatus{Fingerprint: "b"}, 2},
		"something differs": {&addonsv1.DriftStatus{Fingerprint: "a", Differing: 1}, 2},
		"nothing is known":  {nil, 2},
		"not told":          {&addonsv1.DriftStatus{}, 2},
	} {
		m := &Memory{}
		m.Begin(4, "", tc.status, snapshot)
		if got := m.Suspects(snapshot, true, now); len(got) != tc.want {
			t.Errorf("%s: %d to compare, want %d", name, len(got), tc.want)
		}
	}
}

func TestJitterIsSteadyAndSpreads(t *testing.T) {
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
