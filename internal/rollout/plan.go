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

import "fmt"

// Plan tells what is done for each Cluster now.
func Plan(in Input) Result {
	result := Result{State: in.State, Steps: make([]Step, 0, len(in.Clusters))}
	for i := range in.Clusters {
		result.Steps = append(result.Steps, planOne(&in.Clusters[i], in.State))
	}
	return result
}

func planOne(c *Cluster, state State) Step {
	action, why := decide(c)
	return Step{
		Cluster: c.Name, Action: action, Why: why, Source: SourceTarget, Revision: state.Revision,
		Joined: action == ActionCreate, Told: isTold(c, action),
	}
}

func isTold(c *Cluster, action Action) bool {
	if action != ActionNone {
		return action == ActionCreate || action == ActionUpdate
	}
	return c.Target != nil && c.Child != nil && !c.Child.Deleting && c.Child.Release == *c.Target
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
	case c.Target == nil:
		return ActionNone, "what is desired cannot be told"
	case c.Child == nil:
		return ActionCreate, "the Cluster has no release yet"
	case c.Child.Identity != c.Target.Identity:
		return ActionReplace, fmt.Sprintf("the release changes from %s to %s", c.Child.Identity, c.Target.Identity)
	case c.Child.Release != *c.Target:
		return ActionUpdate, "something else is desired"
	default:
		return ActionNone, "the Cluster was told what is desired"
	}
}
