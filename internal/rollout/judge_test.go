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

package rollout

import "time"

func (j *judge) soak(c *Cluster) time.Duration {
	if c.Wave < len(j.in.Strategy.Waves) {
		return j.in.Strategy.Waves[c.Wave].Soak
	}
	return j.in.Strategy.Soak
}

// isDone is a Cluster that speaks for what is wanted.
func (j *judge) isDone(c *Cluster) bool {
	release, revision := j.goal(c)
	if !isServable(c) || c.Child == nil || c.Child.Deleting || c.Health != HealthReady || j.isOnItsWay(c) || c.Child.Revision == revision && c.Child.Joined {
		return false
	}
	same := release != nil && sameContent(*release, c.Child.Release)
	return same || c.Child.Revision == revision && release == nil
}

// wasDone is a Cluster that went dark after it was done.
func (j *judge) wasDone(c *Cluster) bool {
	return j.isLost(c) && !c.Child.Deleting && c.WasReady && c.ReadyFor >= j.soak(c)
}
