// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

func TestKubernetesVersion(t *testing.T) {
	t.Parallel()
	controlPlane := func(status, spec string) map[string]any { return controlPlaneWith(spec, status) }
	for name, tc := range map[string]struct {
		topology     string
		controlPlane map[string]any
		want, ahead  string
	}{
		"nothing is known":        {"", nil, "", ""},
		"only the topology":       {"v1.34.0", nil, "v1.34.0", "v1.34.0"},
		"no topology":             {"", controlPlane("v1.33.0", "v1.34.0"), "v1.33.0", "v1.33.0"},
		"not running yet":         {"", controlPlane("", "v1.34.0"), "v1.34.0", "v1.34.0"},
		"as wanted":               {"v1.34.0", controlPlane("v1.34.0", "v1.34.0"), "v1.34.0", "v1.34.0"},
		"an upgrade is held":      {"v1.35.0", controlPlane("v1.34.0", "v1.34.0"), "v1.34.0", "v1.35.0"},
		"an upgrade is under way": {"v1.35.0", controlPlane("v1.34.0", "v1.35.0"), "v1.34.0", "v1.35.0"},
		"from a pre-release":      {"v1.35.0", controlPlane("v1.35.0-rc.1", "v1.35.0-rc.1"), "v1.35.0-rc.1", "v1.35.0"},
		"back is no upgrade":      {"v1.33.0", controlPlane("v1.34.0", "v1.34.0"), "v1.34.0", "v1.34.0"},
		"a version that is none":  {"v1.35.0", controlPlane("stable", "stable"), "stable", "stable"},
		"several versions run": {"v1.35.0", map[string]any{"status": map[string]any{"version": "v1.35.0", "versions": []any{
			map[string]any{"version": "v1.34.0"}, map[string]any{"version": "v1.35.0"}}}}, "v1.34.0", "v1.35.0"},
		"versions that are none": {"v1.35.0", map[string]any{"status": map[string]any{"version": "v1.34.0",
			"versions": []any{"v1.33.0"}}}, "v1.34.0", "v1.35.0"},
		"a status that is no version": {"v1.35.0", map[string]any{"status": map[string]any{"version": int64(1)}}, "v1.35.0",
			"v1.35.0"},
		"a status that is no map": {"v1.35.0", map[string]any{"status": "ok"}, "v1.35.0", "v1.35.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &clusterv1.Cluster{}
			cluster.Spec.Topology.Version = tc.topology
			if got := kubernetesVersion(cluster, tc.controlPlane, false, "", false); got != tc.want {
				t.Errorf("counts %q, want %q", got, tc.want)
			}
			if got := kubernetesVersion(cluster, tc.controlPlane, true, "", false); got != tc.ahead {
				t.Errorf("counts %q ahead of an upgrade, want %q", got, tc.ahead)
			}
		})
	}
}

// planned returns a Cluster with a requested version that Cluster API has observed, and the published plan, if any.
func planned(topology string, steps ...string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{}
	cluster.Generation = 2
	cluster.Spec.Topology.Version = topology
	conditions.Set(cluster, metav1.Condition{Type: clusterv1.ClusterTopologyReconciledCondition,
		Status: metav1.ConditionFalse, Reason: clusterv1.ClusterTopologyReconciledClusterUpgradingReason})
	cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{}
	for _, step := range steps {
		cluster.Status.ControlPlane.UpgradePlan = append(cluster.Status.ControlPlane.UpgradePlan,
			clusterv1.StatusUpgradePlanVersion{Version: step})
	}
	return cluster
}

// requested returns a Cluster with a version that was requested just now: Cluster API has not observed it.
func requested(topology string, steps ...string) *clusterv1.Cluster {
	cluster := planned(topology, steps...)
	cluster.Generation++
	return cluster
}

// controlPlaneWith returns a control plane with versions in its spec and its status.
func controlPlaneWith(spec, status string) map[string]any {
	return map[string]any{"status": map[string]any{"version": status}, "spec": map[string]any{"version": spec}}
}

func TestKubernetesVersionOfChainedUpgrade(t *testing.T) {
	t.Parallel()
	all := []string{"v1.35.2", "v1.36.3", "v1.37.1"}
	for name, tc := range map[string]struct {
		cluster                        *clusterv1.Cluster
		specified, running, have, want string
	}{
		"the first step":                 {planned("v1.37.1", all...), "v1.34.0", "v1.34.0", "v1.34.0", "v1.35.2"},
		"no plan yet":                    {requested("v1.37.1"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0"},
		"no plan yet, one minor version": {requested("v1.35.1"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0"},
		"no plan, one minor version":     {planned("v1.35.1"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.35.1"},
		"no plan, one patch version":     {planned("v1.34.1"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.1"},
		"no plan yet, next major":        {requested("v2.0.0"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0"},
		"a plan for another version":     {requested("v1.37.1", all[:2]...), "v1.34.0", "v1.34.0", "", "v1.34.0"},
		"a plan for another version, one minor version": {planned("v1.35.1", all[:2]...), "v1.34.0", "v1.34.0", "",
			"v1.35.1"},
		"Cluster API 1.13 plans in secret":             {planned("v1.37.1"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.37.1"},
		"Cluster API 1.13 makes a step":                {planned("v1.37.1"), "v1.35.2", "v1.34.0", "v1.37.1", "v1.37.1"},
		"Cluster API 1.13 makes the last step":         {planned("v1.37.1"), "v1.37.1", "v1.36.0", "v1.37.1", "v1.37.1"},
		"the step runs":                                {planned("v1.37.1", all[1:]...), "v1.35.2", "v1.34.0", "v1.35.2", "v1.35.2"},
		"the step runs, another change of the Cluster": {requested("v1.37.1"), "v1.35.2", "v1.34.0", "", "v1.35.2"},
		"the next step":                                {planned("v1.37.1", all[1:]...), "v1.35.2", "v1.35.2", "v1.35.2", "v1.36.3"},
		"the next step, old plan":                      {planned("v1.37.1", all...), "v1.35.2", "v1.35.2", "", "v1.36.3"},
		"the plan is observed first":                   {planned("v1.37.1", all[1:]...), "v1.34.0", "v1.34.0", "v1.35.2", "v1.35.2"},
		"a step of the same minor version":             {planned("v1.35.1", "v1.34.9", "v1.35.1"), "v1.34.0", "v1.34.0", "", "v1.34.9"},
		"versions of a vendor": {planned("v1.36.1+a.1", "v1.35.2+a.1", "1.36.1+a.1"), "v1.34.0+a.1", "v1.34.0+a.1", "",
			"v1.35.2+a.1"},
		"a step that is no version": {planned("v1.36.1", "next", "v1.36.1"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0"},
		"the request was lowered":   {planned("v1.35.1"), "v1.36.0", "v1.34.0", "v1.36.0", "v1.35.1"},
		"a vendor's build":          {planned("v1.34.0+a.2"), "v1.34.0+a.1", "v1.34.0+a.1", "v1.34.0+a.1", "v1.34.0+a.1"},
		"a managed control plane":   {planned("v1.37.0"), "v1.37.0", "1.37", "v1.37.0", "v1.37.0"},
		"done":                      {planned("v1.37.1"), "v1.37.1", "v1.37.1", "v1.37.1", "v1.37.1"},
	} {
		got := kubernetesVersion(tc.cluster, controlPlaneWith(tc.specified, tc.running), true, tc.have, false)
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestVersionWaitsForPublishedPlan checks the versions with a Cluster API that publishes plans: a plan that is missing
// now will follow, whatever the condition TopologyReconciled reports.
func TestVersionWaitsForPublishedPlan(t *testing.T) {
	t.Parallel()
	all := []string{"v1.35.2", "v1.36.3", "v1.37.1"}
	neverObserved := requested("v1.37.1")
	neverObserved.Status.Conditions = nil
	for name, tc := range map[string]struct {
		cluster                        *clusterv1.Cluster
		specified, running, have, want string
		isPending                      bool
	}{
		"the condition before the plan":    {planned("v1.37.1"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0", true},
		"not observed":                     {requested("v1.37.1"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0", true},
		"no condition":                     {neverObserved, "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0", true},
		"the plan":                         {planned("v1.37.1", all...), "v1.34.0", "v1.34.0", "v1.34.0", "v1.35.2", false},
		"the plan before the condition":    {requested("v1.37.1", all...), "v1.34.0", "v1.34.0", "v1.34.0", "v1.35.2", false},
		"the plan for another version":     {planned("v1.37.1", all[:2]...), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0", true},
		"one minor version, no plan":       {planned("v1.35.2"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0", true},
		"one minor version":                {planned("v1.35.2", "v1.35.2"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.35.2", false},
		"one patch version, no plan":       {planned("v1.34.1"), "v1.34.0", "v1.34.0", "v1.34.0", "v1.34.0", true},
		"the last step runs":               {planned("v1.37.1"), "v1.37.1", "v1.36.3", "v1.37.1", "v1.37.1", false},
		"the last step runs without v":     {planned("v1.37.1"), "1.37.1", "1.36.3", "v1.37.1", "1.37.1", false},
		"a step runs to the former target": {planned("v1.37.1"), "v1.35.2", "v1.34.0", "v1.35.2", "v1.35.2", true},
		"a step to the former target ran":  {planned("v1.37.1"), "v1.35.2", "v1.35.2", "v1.35.2", "v1.35.2", true},
		"the release is already ahead":     {planned("v1.37.1"), "v1.34.0", "v1.34.0", "v1.35.2", "v1.35.2", true},
		"the request was lowered":          {planned("v1.35.1"), "v1.36.0", "v1.34.0", "v1.36.0", "v1.35.1", false},
		"done":                             {planned("v1.37.1"), "v1.37.1", "v1.37.1", "v1.37.1", "v1.37.1", false},
	} {
		controlPlane := controlPlaneWith(tc.specified, tc.running)
		if got := kubernetesVersion(tc.cluster, controlPlane, true, tc.have, true); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if got := IsPlanPending(tc.cluster, tc.specified, tc.running, true); got != tc.isPending {
			t.Errorf("%s: pending %t", name, got)
		}
		if got := VersionWithoutPlan(tc.cluster, tc.running, tc.have, true); got != "" {
			t.Errorf("%s: %q without a plan", name, got)
		}
	}
}

// TestChainIsWalkedStepByStep walks an upgrade from v1.34 to v1.37. It tries every order in which the states of the
// Cluster and of its control plane can be observed: the state of the Cluster may be older, or up to one step newer. The
// version of the release must follow the steps. It never returns to an older version, and is never more than one step
// ahead of the control plane.
func TestChainIsWalkedStepByStep(t *testing.T) {
	t.Parallel()
	const target = "v1.37.0"
	steps := []*clusterv1.Cluster{planned(target, minor(35), minor(36), target), planned(target, minor(36), target),
		planned(target, target), planned(target)}
	for name, tc := range map[string]struct {
		before         []*clusterv1.Cluster
		publishesPlans bool
		walks          int
	}{
		"the plan and the condition at once": {[]*clusterv1.Cluster{planned(minor(34)), requested(target)}, false, 437},
		// Cluster API writes the condition before the plan.
		"the condition before the plan": {[]*clusterv1.Cluster{planned(minor(34)), requested(target), planned(target)},
			true, 892},
	} {
		w := walker{T: t, name: name, target: target, clusters: append(tc.before, steps...),
			// The first states of the Cluster are published before the control plane changes.
			published: append(make([]int, len(tc.before)), 0, 1, 3, 5), publishesPlans: tc.publishesPlans}
		w.walk(0, 0, 34, "")
		if w.walks != tc.walks {
			t.Errorf("%s: %d walks, want %d", name, w.walks, tc.walks)
		}
	}
}

// minor returns a version with a minor version.
func minor(version int) string { return fmt.Sprintf("v1.%d.0", version) }

// walker walks through the states of an upgrade.
type walker struct {
	*testing.T
	name, target string
	clusters     []*clusterv1.Cluster

	// published is the state of the control plane at which Cluster API publishes each state of the Cluster.
	published      []int
	publishesPlans bool

	// walks is the number of walks to the end.
	walks int
}

// walk observes a state of the Cluster and a state of the control plane, and walks on in each possible order. before is
// the minor version of the release.
func (w *walker) walk(cluster, controlPlane, before int, path string) {
	const stepStates = 2
	controlPlanes := [][2]int{{34, 34}, {35, 34}, {35, 35}, {36, 35}, {36, 36}, {37, 36}, {37, 37}}
	at := controlPlanes[controlPlane]
	path += fmt.Sprintf(" %d/%d", cluster, controlPlane)
	got := kubernetesVersion(w.clusters[cluster], controlPlaneWith(minor(at[0]), minor(at[1])), true, minor(before),
		w.publishesPlans)
	now := 0
	if _, err := fmt.Sscanf(got, "v1.%d.0", &now); err != nil {
		w.Fatalf("%s: %s: %q", w.name, path, got)
	}
	if now < before || now < at[1] || now > at[1]+1 {
		w.Fatalf("%s: %s: v1.%d after v1.%d, the control plane runs v1.%d", w.name, path, now, before, at[1])
	}
	last := true
	if cluster+1 < len(w.clusters) && w.published[cluster+1] <= controlPlane+stepStates {
		w.walk(cluster+1, controlPlane, now, path)
		last = false
	}
	if controlPlane+1 < len(controlPlanes) {
		w.walk(cluster, controlPlane+1, now, path)
		last = false
	}
	if last {
		w.walks++
		if got != w.target {
			w.Errorf("%s: %s: ends with %s", w.name, path, got)
		}
	}
}

func TestRebuiltVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ wanted, specified, want string }{
		"another build":      {"v1.36.1+rke2r2", "v1.36.1+rke2r1", "v1.36.1+rke2r2"},
		"a build added":      {"v1.36.1+rke2r2", "v1.36.1", "v1.36.1+rke2r2"},
		"the same build":     {"v1.36.1+rke2r2", "1.36.1+rke2r2", ""},
		"another version":    {"v1.36.2+rke2r1", "v1.36.1+rke2r1", ""},
		"no control plane":   {"v1.36.1", "", ""},
		"not of a class":     {"", "v1.36.1", ""},
		"another prerelease": {"v1.36.1-eks-2", "v1.36.1-eks-1", ""},
	} {
		cluster := &clusterv1.Cluster{}
		cluster.Spec.Topology.Version = tc.wanted
		if got := RebuiltVersion(cluster, tc.specified); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestStepsOfAnUpgrade checks the steps of an upgrade, whether a plan may still be published, and the version of a
// release if there is no plan.
func TestStepsOfAnUpgrade(t *testing.T) {
	t.Parallel()
	all := []string{"v1.35.2", "v1.36.3", "v1.37.1"}
	for name, tc := range map[string]struct {
		cluster                      *clusterv1.Cluster
		specified, running, assigned string
		steps                        []string
		isPending                    bool
		initial                      string
	}{
		"a plan":                  {planned("v1.37.1", all...), "v1.34.0", "v1.34.0", "", all, false, ""},
		"its first step runs":     {planned("v1.37.1", all[1:]...), "v1.35.2", "v1.34.0", "", all, false, ""},
		"its first step is done":  {planned("v1.37.1", all[1:]...), "v1.35.2", "v1.35.2", "", all[1:], false, ""},
		"an old plan":             {planned("v1.37.1", all...), "v1.35.2", "v1.34.0", "", all, false, ""},
		"a plan without v":        {planned("v1.37.1", "1.36.3", "1.37.1"), "v1.35.0", "v1.35.0", "", []string{"1.36.3", "1.37.1"}, false, ""},
		"another plan":            {requested("v1.38.1", all...), "v1.34.0", "v1.34.0", "", nil, true, ""},
		"not observed":            {requested("v1.37.1"), "v1.34.0", "v1.34.0", "", nil, true, ""},
		"no plan":                 {planned("v1.37.1"), "v1.34.0", "v1.34.0", "", nil, false, "v1.37.1"},
		"no plan, a later target": {planned("v1.37.1"), "v1.34.0", "v1.34.0", "v1.36.0", nil, false, "v1.36.0"},
		"no plan, one step":       {planned("v1.35.1"), "v1.34.0", "v1.34.0", "", nil, false, ""},
		"no upgrade":              {requested("v1.34.0"), "v1.34.0", "v1.34.0", "", nil, false, ""},
	} {
		if got := UpgradeSteps(tc.cluster, tc.specified, tc.running); !slices.Equal(got, tc.steps) {
			t.Errorf("%s: steps %v, want %v", name, got, tc.steps)
		}
		if got := IsPlanPending(tc.cluster, tc.specified, tc.running, false); got != tc.isPending {
			t.Errorf("%s: pending %t", name, got)
		}
		if got := VersionWithoutPlan(tc.cluster, tc.running, tc.assigned, false); got != tc.initial {
			t.Errorf("%s: %q, want %q", name, got, tc.initial)
		}
	}
}
