// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"context"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
)

// kubernetesVersion returns the Kubernetes version that selects the variant for a Cluster. It is the version that the
// control plane runs, or empty if this is not known. If ahead is true (spec.beforeClusterUpgrade), the release must be
// ready before an upgrade. So the result is the version of the next step of a pending upgrade. It keeps this version
// until the control plane runs it, even if the upgrade is no longer held. Otherwise, the release would return to the
// old variant during the upgrade. assigned is the version of the current release; empty if there is none. The result is
// assigned while the next step is not known. publishesPlans is the result of PublishesPlans; it matters only if ahead
// is true.
func kubernetesVersion(cluster *clusterv1.Cluster, controlPlane map[string]any, ahead bool, assigned string,
	publishesPlans bool,
) string {
	running := RunningVersion(controlPlane)
	target := NewerVersion(cluster.Spec.Topology.Version, running)
	if !ahead || target == "" {
		if IsSameVersion(assigned, running) {
			return assigned // Managed control planes write "1.37" where the topology has "v1.37.0".
		}
		return cmp.Or(running, cluster.Spec.Topology.Version)
	}
	return cmp.Or(NextStep(cluster, SpecifiedVersion(controlPlane), running, assigned, publishesPlans),
		between(running, assigned, target), running)
}

// RunningVersion returns the oldest version that a control plane runs. If the status has no version, it returns the
// version in the spec. The result is empty if both versions are unknown. The contract of Cluster API for control planes
// prefers status.versions, with the oldest version first, and deprecates status.version.
func RunningVersion(controlPlane map[string]any) string {
	versions, _, _ := unstructured.NestedSlice(controlPlane, "status", "versions")
	if len(versions) > 0 {
		oldest, _ := versions[0].(map[string]any)
		if version, _, _ := unstructured.NestedString(oldest, "version"); version != "" {
			return version
		}
	}
	version, _, _ := unstructured.NestedString(controlPlane, "status", "version")
	return cmp.Or(version, SpecifiedVersion(controlPlane))
}

// SpecifiedVersion returns the version in the spec of a control plane. The control plane runs this version or is being
// upgraded to it. The result is empty if the version is not known.
func SpecifiedVersion(controlPlane map[string]any) string {
	version, _, _ := unstructured.NestedString(controlPlane, "spec", "version")
	return version
}

// NextStep returns the version of the next or the current step of an upgrade of a control plane. An upgrade over
// several minor versions has several steps. Cluster API publishes them in the status of the Cluster. specified and
// running are the versions in the spec and in the status of the control plane. assigned is the version of the current
// release. It is empty if no upgrade is requested, or if the next step is not known yet. An older version in the
// topology is not an upgrade; Cluster API refuses it.
//
// publishesPlans is the result of PublishesPlans. Cluster API 1.12 and 1.13 carry out upgrades over several minor
// versions without publishing the steps. Then HelmOp makes the release ready for the requested version at the start,
// and the release keeps this version.
func NextStep(cluster *clusterv1.Cluster, specified, running, assigned string, publishesPlans bool) string {
	target := NewerVersion(cluster.Spec.Topology.Version, running)
	if target == "" {
		return ""
	}
	if initial := VersionWithoutPlan(cluster, running, assigned, publishesPlans); initial != "" {
		return initial
	}
	if step := between(running, specified, target); step != "" {
		return step
	}
	for _, step := range PlannedVersions(cluster) {
		if NewerVersion(step, running) != "" {
			// A step farther away is in the plan for a later state of the control plane. The plan and the control plane are
			// different objects, so HelmOp may observe them in any order.
			return oneMinorAhead(step, running)
		}
	}
	if len(PlannedVersions(cluster)) == 0 && !IsPlanPending(cluster, specified, running, publishesPlans) {
		return target
	}
	return ""
}

// VersionWithoutPlan returns the version for which HelmOp makes a release ready at the start of an upgrade over several
// minor versions, if Cluster API does not publish the steps. It is empty for other upgrades. The arguments are the same
// as for NextStep.
func VersionWithoutPlan(cluster *clusterv1.Cluster, running, assigned string, publishesPlans bool) string {
	target := NewerVersion(cluster.Spec.Topology.Version, running)
	if publishesPlans || target == "" || len(PlannedVersions(cluster)) > 0 || !HasObserved(cluster) ||
		oneMinorAhead(target, running) != "" {
		return ""
	}
	return cmp.Or(between(running, assigned, target), target)
}

// UpgradeSteps returns the steps of an upgrade that has a plan: the current step, and the steps in the plan. Cluster
// API removes a step from the plan when the step begins. The result is empty if there is no plan. The arguments are the
// same as for NextStep.
func UpgradeSteps(cluster *clusterv1.Cluster, specified, running string) []string {
	plan := PlannedVersions(cluster)
	if len(plan) == 0 {
		return nil
	}
	if NewerVersion(specified, running) != "" && NewerVersion(plan[0], specified) != "" {
		return append([]string{specified}, plan...)
	}
	return plan
}

// IsPlanPending reports whether HelmOp waits for the plan of a requested upgrade, because the next step is not known
// without the plan. The arguments are the same as for NextStep.
//
// A Cluster API that publishes plans makes a plan for each upgrade, and removes the last step from the plan when it
// begins this step. TopologyReconciled does not show whether the plan is published: Cluster API writes the condition a
// moment earlier. If Cluster API cannot make a plan, the condition has the cause.
func IsPlanPending(cluster *clusterv1.Cluster, specified, running string, publishesPlans bool) bool {
	if !needsPlan(cluster, running) {
		return false
	}
	return !HasObserved(cluster) ||
		publishesPlans && NewerVersion(cluster.Spec.Topology.Version, specified) != ""
}

// needsPlan reports whether an upgrade is requested whose plan is not known.
func needsPlan(cluster *clusterv1.Cluster, running string) bool {
	return NewerVersion(cluster.Spec.Topology.Version, running) != "" && len(PlannedVersions(cluster)) == 0
}

// PublishesPlans reports whether Cluster API publishes the plans of upgrades, for the decision about a Cluster. It
// returns false without a read if the decision does not depend on the answer.
func PublishesPlans(ctx context.Context, objects *clusterview.Reader, cluster *clusterv1.Cluster,
	controlPlane map[string]any,
) (bool, error) {
	if !needsPlan(cluster, RunningVersion(controlPlane)) {
		return false, nil
	}
	return objects.PublishesPlans(ctx)
}

// between returns version if it is newer than running and not newer than target; otherwise "".
func between(running, version, target string) string {
	if NewerVersion(version, target) != "" {
		return ""
	}
	return NewerVersion(version, running)
}

// PlannedVersions returns the steps of the control plane that Cluster API has published for the requested version.
// Cluster API publishes steps since v1.14.
func PlannedVersions(cluster *clusterv1.Cluster) []string {
	if cluster.Status.ControlPlane == nil {
		return nil
	}
	plan := cluster.Status.ControlPlane.UpgradePlan
	if len(plan) == 0 ||
		strings.TrimPrefix(plan[len(plan)-1].Version, "v") != strings.TrimPrefix(cluster.Spec.Topology.Version, "v") {
		return nil
	}
	versions := make([]string, 0, len(plan))
	for _, step := range plan {
		versions = append(versions, step.Version)
	}
	return versions
}

// HasObserved reports whether Cluster API has processed the current topology of a Cluster. Cluster API publishes the
// plan of an upgrade a moment later.
func HasObserved(cluster *clusterv1.Cluster) bool {
	reconciled := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition)
	return reconciled == nil || reconciled.ObservedGeneration >= cluster.Generation
}

// IsSameVersion reports whether two versions are the same in all parts. Missing parts are 0.
func IsSameVersion(a, b string) bool {
	first, second := ParseExactVersion(a), ParseExactVersion(b)
	return first != nil && second != nil && first.Equal(second) && first.Metadata() == second.Metadata()
}

// IsSameRelease reports whether two versions select the same entry of refsByKubernetesVersion. The pre-release and
// build parts do not matter.
func IsSameRelease(a, b string) bool {
	first, second := parseVersion(a), parseVersion(b)
	return a == b || first != nil && second != nil && first.Equal(second)
}

// oneMinorAhead returns version if it is newer and a control plane may be upgraded to it in one step; otherwise "".
func oneMinorAhead(version, running string) string {
	to, from := ParseExactVersion(version), ParseExactVersion(running)
	if to.Major() != from.Major() || to.Minor() > from.Minor()+1 {
		return ""
	}
	return version
}

// RebuiltVersion returns the version in the topology of a Cluster if it differs only in its build part from the version
// in the spec of the control plane, for example v1.36.1+rke2r2 and v1.36.1+rke2r1. Otherwise it returns "". Cluster API
// upgrades to such a version too.
func RebuiltVersion(cluster *clusterv1.Cluster, specified string) string {
	wanted := cluster.Spec.Topology.Version
	to, from := ParseExactVersion(wanted), ParseExactVersion(specified)
	if to == nil || from == nil || !to.Equal(from) || to.Metadata() == from.Metadata() {
		return ""
	}
	return wanted
}

// NewerVersion returns the desired version if it is newer than the running version; otherwise "".
func NewerVersion(desired, running string) string {
	to, from := ParseExactVersion(desired), ParseExactVersion(running)
	if to == nil || from == nil || !to.GreaterThan(from) {
		return ""
	}
	return desired
}

// parseVersion parses a Kubernetes version without its pre-release and build parts. It returns nil if the version is
// malformed. Vendors use these parts for any text, and a pre-release part would exclude the version from ranges.
func parseVersion(version string) *semver.Version {
	release, _, _ := strings.Cut(version, "+")
	release, _, _ = strings.Cut(release, "-")
	return ParseExactVersion(release)
}

// ParseExactVersion parses a single version. It returns nil if the version is malformed.
func ParseExactVersion(version string) *semver.Version {
	parsed, err := semver.NewVersion(version)
	if err != nil {
		return nil
	}
	return parsed
}
