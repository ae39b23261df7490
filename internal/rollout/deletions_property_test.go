// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math/rand"
	"testing"
)

// checkDeletions checks that no more releases are being deleted than the limits allow, and none where deletions wait.
func (j *judge) checkDeletions() {
	last := len(j.in.Strategy.Waves)
	begun, under, members := make([]int, last+1), make([]int, last+1), make([]int, last+1)
	waiting, closed := 0, 0
	for i := range j.in.Clusters {
		c, step := &j.in.Clusters[i], j.result.Steps[i]
		if c.Gone || c.Deleting || !c.Selected && c.Child == nil {
			continue
		}
		members[c.Wave]++
		isBound := step.Action == ActionDelete || step.Action == ActionReplace && !j.isRepair(c)
		switch {
		case isBound && c.Paused:
			j.Errorf("the release of the paused Cluster %s is deleted", c.Name)
		case step.Action == ActionDelete && (j.in.DeletionsHeld || j.in.Strategy.Paused):
			j.Errorf("the release of %s is deleted, but deletions wait", c.Name)
		case isBound:
			begun[c.Wave]++
			under[c.Wave] += boolToInt(c.Health != HealthUnreachable)
		case step.Action == ActionReplace:
			under[c.Wave] += boolToInt(c.Health != HealthUnreachable)
		case c.Child != nil && c.Child.Deleting && !c.Child.UnreachableAtDeletion && !c.Paused &&
			(!c.Selected || c.Health != HealthFailed && (c.Health != HealthUnreachable || c.Child.Replaced)):
			under[c.Wave]++
		case c.Child != nil && !c.Child.Deleting && !c.Selected && !c.Paused:
			waiting++
			closed += boolToInt(c.Defers.Changes)
		}
	}
	if j.result.Progress.DeletionsWaiting != waiting {
		j.Errorf("%d deletions wait, not %d", waiting, j.result.Progress.DeletionsWaiting)
	}
	all := func(counts []int) (n int) {
		for _, count := range counts {
			n += count
		}
		return n
	}
	if limit := j.in.Strategy.MaxUnavailable.Of(all(members)); all(begun) > 0 && all(under) > limit {
		j.Errorf("%d deletions begin, and %d are under way, limit %d", all(begun), all(under), limit)
	}
	for i, wave := range j.in.Strategy.Waves {
		if limit := wave.MaxUnavailable.Of(members[i]); begun[i] > 0 && under[i] > limit {
			j.Errorf("%d deletions of wave %d begin, and %d are under way, limit %d", begun[i], i, under[i], limit)
		}
	}
	if waiting > closed && all(under) == 0 && !j.in.DeletionsHeld && !j.in.Strategy.Paused && !j.hasAwayDeletion() {
		j.Errorf("%d deletions wait for nothing", waiting)
	}
}

// isRepair is true for a Cluster that is not ready and has the revision that was given up. Its return takes a slot, but
// does not wait for one.
func (j *judge) isRepair(c *Cluster) bool {
	return j.isGivenUp() && c.Child != nil && c.Child.Revision == j.in.State.Revision && c.Health != HealthReady
}

// hasAwayDeletion is true if a deletion runs or begins in a Cluster that was unreachable before.
func (j *judge) hasAwayDeletion() bool {
	for i := range j.after {
		if c := &j.after[i]; c.Child != nil && c.Child.Deleting && c.Child.UnreachableAtDeletion {
			return true
		}
	}
	return false
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestPlanDeletionKeepsLimitsAndCompletes checks for random fleets that the deletion of a HelmOp stays within the
// limits and ends.
func TestPlanDeletionKeepsLimitsAndCompletes(t *testing.T) {
	t.Parallel()
	for seed := range int64(100) {
		w := newWorld(seed)
		rng := rand.New(rand.NewSource(seed))
		for _, c := range w.clusters {
			c.Child, c.Wave = &Child{Release: *releaseOf(1), Revision: 1}, rng.Intn(len(w.strategy.Waves)+1)
			c.Paused, c.Deleting, c.Gone = w.chance(5), w.chance(5), w.chance(5)
		}
		w.strategy.Paused = w.chance(50)
		for rounds := 0; hasChild(w.clusters); rounds++ {
			if rounds > 300 {
				t.Fatalf("seed %d: no end", seed)
			}
			in := w.input()
			steps := PlanDeletion(w.strategy, in.Clusters)
			checkPacedDeletion(t, w.strategy, in.Clusters, steps)
			for i, step := range steps {
				if step.Action == ActionDelete {
					w.clusters[i].Child.Deleting, w.clusters[i].Child.UnreachableAtDeletion = true, !w.clusters[i].reachable
				}
			}
			for _, c := range w.clusters {
				if rng.Intn(3) == 0 && c.Child != nil && c.Child.Deleting {
					c.Child = nil
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d, %s", seed, describe(w.strategy))
			}
		}
	}
}

func hasChild(clusters []*member) bool {
	for _, c := range clusters {
		if c.Child != nil {
			return true
		}
	}
	return false
}

func checkPacedDeletion(t *testing.T, strategy Strategy, clusters []Cluster, steps []Step) {
	t.Helper()
	under, members, begun := 0, 0, 0
	for i, step := range steps {
		c := &clusters[i]
		free := c.Gone || c.Deleting || c.Paused
		if c.Child != nil && !c.Child.Deleting && free && step.Action != ActionDelete {
			t.Errorf("the release of %s waits: %s", c.Name, step.Why)
		}
		if !c.Gone && !c.Deleting && (c.Selected || c.Child != nil) {
			members++
		}
		switch {
		case free || c.Child == nil || c.Health == HealthUnreachable:
		case step.Action == ActionDelete:
			begun++
			under++
		case c.Child.Deleting && !c.Child.UnreachableAtDeletion:
			under++
		}
	}
	if limit := strategy.MaxUnavailable.Of(members); begun > 0 && under > limit {
		t.Errorf("%d deletions begin, and %d are under way, limit %d", begun, under, limit)
	}
}
