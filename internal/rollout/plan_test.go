// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

func TestPlan(t *testing.T) {
	desired := &Release{Identity: "ns/a", Content: "2"}
	child := func(identity, revision string) *Child {
		return &Child{Release: Release{Identity: identity, Content: revision}}
	}
	deleting := &Child{Release: Release{Identity: "ns/a", Content: "1"}, Deleting: true}

	tests := map[string]struct {
		cluster Cluster
		want    Action
	}{
		"a selected Cluster without a release gets one": {
			Cluster{Selected: true, Initialized: true, Target: desired}, ActionCreate},
		"nothing happens before the control plane is initialized": {
			Cluster{Selected: true, Target: desired}, ActionNone},
		"nothing happens while no reference is resolved": {
			Cluster{Selected: true, Initialized: true}, ActionNone},
		"an existing release stays while a template fails": {
			Cluster{Selected: true, Initialized: true, Child: child("ns/a", "1")}, ActionNone},
		"another revision updates": {
			Cluster{Selected: true, Initialized: true, Target: desired, Child: child("ns/a", "1")}, ActionUpdate},
		"an unchanged revision changes nothing": {
			Cluster{Selected: true, Initialized: true, Target: desired, Child: child("ns/a", "2")}, ActionNone},
		"a different identity replaces, whatever the revision": {
			Cluster{Selected: true, Initialized: true, Target: desired, Child: child("ns/b", "2")}, ActionReplace},
		"a release under deletion is waited for": {
			Cluster{Selected: true, Initialized: true, Target: desired, Child: deleting}, ActionNone},
		"an unselected Cluster loses its release": {
			Cluster{Initialized: true, Child: child("ns/a", "2")}, ActionDelete},
		"an unselected Cluster loses its release even if its control plane is lost": {
			Cluster{Child: child("ns/a", "2")}, ActionDelete},
		"an unselected Cluster without a release stays": {
			Cluster{Initialized: true}, ActionNone},
		"a paused Cluster is not installed": {
			Cluster{Selected: true, Initialized: true, Paused: true, Target: desired}, ActionNone},
		"a paused Cluster is not updated": {
			Cluster{Selected: true, Initialized: true, Paused: true, Target: desired, Child: child("ns/a", "1")}, ActionNone},
		"a paused Cluster is not replaced": {
			Cluster{Selected: true, Initialized: true, Paused: true, Target: desired, Child: child("ns/b", "1")}, ActionNone},
		"a paused Cluster keeps its release when unselected": {
			Cluster{Initialized: true, Paused: true, Child: child("ns/a", "1")}, ActionNone},
		"a Cluster under deletion is not changed": {
			Cluster{Selected: true, Initialized: true, Deleting: true, Target: desired, Child: child("ns/a", "1")}, ActionNone},
		"a Cluster under deletion is not changed when unselected": {
			Cluster{Deleting: true, Child: child("ns/a", "1")}, ActionNone},
		"the release of a Cluster that does not exist is dropped": {
			Cluster{Gone: true, Child: child("ns/a", "1")}, ActionDelete},
		"the release of a Cluster that does not exist is dropped once": {
			Cluster{Gone: true, Child: deleting}, ActionNone},
	}
	assigned := map[string]bool{
		"a selected Cluster without a release gets one": true,
		"another revision updates":                      true,
		"an unchanged revision changes nothing":         true,
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.cluster.Name = "c"
			steps := Plan(Input{Clusters: []Cluster{tc.cluster}}).Steps
			if len(steps) != 1 || steps[0].Cluster != "c" {
				t.Fatalf("steps = %v, want one for c", steps)
			}
			if steps[0].Action != tc.want {
				t.Errorf("action = %s (%s), want %s", steps[0].Action, steps[0].Why, tc.want)
			}
			if steps[0].Assigned != assigned[name] {
				t.Errorf("assigned = %v, want %v", steps[0].Assigned, assigned[name])
			}
			if steps[0].Why == "" {
				t.Error("the step does not say why")
			}
		})
	}
}

func TestPlanStepsDoNotDependOnOtherClusters(t *testing.T) {
	steps := Plan(Input{Clusters: []Cluster{
		{Name: "broken", Selected: true, Initialized: true},
		{Name: "fine", Selected: true, Initialized: true, Target: &Release{Identity: "ns/a"}},
	}}).Steps
	if steps[0].Action != ActionNone || steps[1].Action != ActionCreate {
		t.Errorf("steps = %v, want None for broken and Create for fine", steps)
	}
}
