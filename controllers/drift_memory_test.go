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

import (
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

func snapshotOf(fingerprint string, objects map[inventory.Ref]uint64) *objectwatch.Snapshot {
	snapshot := &objectwatch.Snapshot{Synced: true, Fingerprint: fingerprint, Objects: map[inventory.Ref]objectwatch.State{}}
	for ref, f := range objects {
		snapshot.Objects[ref] = objectwatch.State{Exists: f != 0, Fingerprint: f}
	}
	return snapshot
}

func TestDriftMemory(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	none := map[inventory.Ref]bool{}
	before := snapshotOf("a", map[inventory.Ref]uint64{deployment: 1, configMap: 2})
	m := &driftMemory{}
	m.begin(1, nil, before)
	if got := m.suspects(before, false, true, now); len(got) != 2 {
		t.Fatalf("nothing was compared yet: %v", got)
	}
	m.learn(map[inventory.Ref]bool{deployment: true, configMap: true}, nil, map[inventory.Ref]bool{configMap: true}, before)
	if got := m.suspects(before, false, true, now); len(got) != 1 || !got[configMap] {
		t.Fatalf("one could not be compared: %v", got)
	}
	m.learn(map[inventory.Ref]bool{configMap: true}, nil, none, before)
	if got := m.suspects(before, false, true, now); len(got) != 0 {
		t.Fatalf("nothing changed: %v", got)
	}

	gone := snapshotOf("b", map[inventory.Ref]uint64{deployment: 1, configMap: 0})
	if got := m.suspects(gone, false, true, now); len(got) != 1 || !got[configMap] {
		t.Fatalf("one is gone: %v", got)
	}
	m.learn(map[inventory.Ref]bool{configMap: true}, []drift.Difference{{Ref: configMap, Missing: true}}, none, gone)
	if got := m.suspects(gone, false, false, now); len(got) != 0 {
		t.Fatalf("what is only said need not be compared again: %v", got)
	}
	if got := m.suspects(gone, false, true, now); !got[configMap] {
		t.Fatalf("what is to be corrected is compared first: %v", got)
	}
	for range 3 {
		m.corrections.Corrected(configMap, now)
	}
	if got := m.suspects(gone, false, true, now); len(got) != 0 || m.heldFor(now) <= 0 {
		t.Fatalf("what is fought over is left alone: %v, held for %v", got, m.heldFor(now))
	}
	if got := m.suspects(gone, true, true, now); len(got) != 2 {
		t.Fatalf("a whole check looks at all: %v", got)
	}

	gone.Objects[configMap] = objectwatch.State{Exists: true, Fingerprint: 9, OptOut: true}
	if got := m.suspects(gone, false, true, now); len(got) != 0 || len(m.differences()) != 0 {
		t.Fatalf("an object that opted out: %v, %v", got, m.differences())
	}
	m.begin(2, nil, before)
	if got := m.suspects(before, false, true, now); len(got) != 2 {
		t.Fatalf("a new revision is compared as a whole: %v", got)
	}
}

func TestRestartedManagerComparesWhatChanged(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	snapshot := snapshotOf("a", map[inventory.Ref]uint64{deployment: 1, configMap: 2})
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
		m := &driftMemory{}
		m.begin(4, tc.status, snapshot)
		if got := m.suspects(snapshot, false, true, now); len(got) != tc.want {
			t.Errorf("%s: %d to compare, want %d", name, len(got), tc.want)
		}
	}
}
