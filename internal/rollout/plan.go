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

// Package rollout decides which Clusters may move to what a HelmOp wants now. It is made of pure functions over plain
// structs: it knows no client and no clock. The controller carries out what it plans.
//
// Today every Cluster moves at once; waves and budgets are to narrow the plan, not to bypass it.
package rollout

import "fmt"

// Release identifies what a Cluster is to have, or was told to have.
type Release struct {
	// Identity is the name and the namespace of the release. Another identity is another release.
	Identity string

	// Revision is a digest of everything else that is desired.
	Revision string
}

// Child is what a Cluster was told to have.
type Child struct {
	Release

	// Deleting is true while the child ends its release.
	Deleting bool
}

// Cluster is all that the plan needs to know of a Cluster.
type Cluster struct {
	// Name of the Cluster.
	Name string

	// Selected is true if the selector chooses the Cluster.
	Selected bool

	// Gone is true if there is no such Cluster any more.
	Gone bool

	// Deleting is true if the Cluster is under deletion.
	Deleting bool

	// Paused is true if nothing may be done for the Cluster.
	Paused bool

	// Initialized is true once the control plane of the Cluster can be served.
	Initialized bool

	// Desired is what the Cluster is to have; nil if that cannot be told now, for example because nothing is resolved
	// or a template fails.
	Desired *Release

	// Child is what the Cluster was told to have; nil if it was told nothing.
	Child *Child
}

// Action is what is done for a Cluster.
type Action string

const (
	// ActionNone leaves everything as it is.
	ActionNone Action = "None"

	// ActionCreate tells a Cluster for the first time.
	ActionCreate Action = "Create"

	// ActionUpdate tells a Cluster of something new.
	ActionUpdate Action = "Update"

	// ActionReplace ends the release of the Cluster, so that another one can follow.
	ActionReplace Action = "Replace"

	// ActionDelete ends the release of the Cluster.
	ActionDelete Action = "Delete"
)

// Step is what is done for one Cluster, and why.
type Step struct {
	// Cluster is the name of the Cluster.
	Cluster string

	// Action is what is done.
	Action Action

	// Why tells the reason, for logs.
	Why string

	// Told is true if the Cluster has been told what is desired, or is with this step.
	Told bool
}

// Plan returns one step for each Cluster, in the order of its argument.
func Plan(clusters []Cluster) []Step {
	steps := make([]Step, 0, len(clusters))
	for i := range clusters {
		action, why := decide(&clusters[i])
		steps = append(steps, Step{Cluster: clusters[i].Name, Action: action, Why: why, Told: isTold(&clusters[i], action)})
	}
	return steps
}

func isTold(c *Cluster, action Action) bool {
	if action != ActionNone {
		return action == ActionCreate || action == ActionUpdate
	}
	return c.Desired != nil && c.Child != nil && !c.Child.Deleting && c.Child.Release == *c.Desired
}

// decide asks in an order that matters: what forbids a change comes before what wants one. A Cluster that is gone comes
// first, because forgetting its release touches nothing and holds for a paused one, too.
func decide(c *Cluster) (Action, string) {
	switch {
	case c.Gone && c.Child != nil && !c.Child.Deleting:
		return ActionDelete, "the Cluster is gone"
	case c.Gone:
		return ActionNone, "the Cluster is gone"
	case c.Deleting:
		return ActionNone, "the Cluster is under deletion"
	case c.Paused:
		return ActionNone, "the Cluster is paused"
	case c.Child != nil && c.Child.Deleting:
		return ActionNone, "the previous release is ending"
	case !c.Selected && c.Child != nil:
		return ActionDelete, "the Cluster is no longer selected"
	case !c.Selected:
		return ActionNone, "the Cluster is not selected"
	case !c.Initialized:
		return ActionNone, "the control plane of the Cluster is not initialized"
	case c.Desired == nil:
		return ActionNone, "what is desired cannot be told"
	case c.Child == nil:
		return ActionCreate, "the Cluster has no release yet"
	case c.Child.Identity != c.Desired.Identity:
		return ActionReplace, fmt.Sprintf("the release changes from %s to %s", c.Child.Identity, c.Desired.Identity)
	case c.Child.Revision != c.Desired.Revision:
		return ActionUpdate, "something else is desired"
	default:
		return ActionNone, "the Cluster was told what is desired"
	}
}
