// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

func (j *judge) soak(c *Cluster) time.Duration {
	if c.Wave < len(j.in.Strategy.Waves) {
		return j.in.Strategy.Waves[c.Wave].Soak
	}
	return j.in.Strategy.Soak
}

// isDone is true for a Cluster that proves the current revision.
func (j *judge) isDone(c *Cluster) bool {
	release, revision := j.goal(c)
	if !isServable(c) || c.Child == nil || c.Child.Deleting || c.Health != HealthReady || j.isOnItsWay(c) ||
		c.Child.Revision == revision && c.Child.Joined {
		return false
	}
	return j.has(release, c) || c.Child.Revision == revision && release == nil
}

// wasDone is true for a Cluster that became unreachable after it was done.
func (j *judge) wasDone(c *Cluster) bool {
	return j.isLost(c) && !c.Child.Deleting && c.WasReady && c.ReadyFor >= j.soak(c)
}
