// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// kubernetesVersion returns the Kubernetes version that selects the variant for a Cluster: the
// version that its control plane runs. With ahead (spec.beforeClusterUpgrade), the release must be
// ready before an upgrade, so it is the version of the next step of a pending upgrade. It stays that
// version until the control plane runs it, even if the upgrade is no longer held. Otherwise, the
// release would return to the old variant during the upgrade. While the next step is not known, the
// assigned version of the release stays. Empty if the version is unknown.
func kubernetesVersion(cluster *clusterv1.Cluster, controlPlane map[string]any, ahead bool, assigned string) string {
	running := RunningVersion(controlPlane)
	target := NewerVersion(cluster.Spec.Topology.Version, running)
	if !ahead || target == "" {
		return cmp.Or(running, cluster.Spec.Topology.Version)
	}
	if step := NextStep(cluster, SpecifiedVersion(controlPlane), running); step != "" {
		return step
	}
	if NewerVersion(assigned, running) != "" && NewerVersion(assigned, target) == "" {
		return assigned
	}
	return running
}

// RunningVersion returns the version that a control plane runs, or the version in its spec if its
// status has none. Empty if both are unknown.
func RunningVersion(controlPlane map[string]any) string {
	for _, section := range []string{"status", "spec"} {
		if version, _, _ := unstructured.NestedString(controlPlane, section, "version"); version != "" {
			return version
		}
	}
	return ""
}

// SpecifiedVersion returns the version in the spec of a control plane, which it runs or is being
// upgraded to. Empty if it is unknown.
func SpecifiedVersion(controlPlane map[string]any) string {
	version, _, _ := unstructured.NestedString(controlPlane, "spec", "version")
	return version
}

// NextStep returns the version that the control plane of a Cluster is upgraded to next, or now. An
// upgrade over several minor versions has several steps, which Cluster API publishes in the status of
// the Cluster. The arguments are the versions in the spec and in the status of the control plane.
// Empty if no upgrade is requested, or if the next step is not published yet. An older version in the
// topology is not an upgrade; Cluster API refuses it.
func NextStep(cluster *clusterv1.Cluster, specified, running string) string {
	target := NewerVersion(cluster.Spec.Topology.Version, running)
	if target == "" {
		return ""
	}
	if step := NewerVersion(specified, running); step != "" && NewerVersion(step, target) == "" {
		return step
	}
	for _, step := range upgradePlan(cluster) {
		if NewerVersion(step.Version, running) != "" {
			// A step farther away belongs to a plan of a later state of the control plane: the plan and the
			// control plane are different objects, and may be observed in any order.
			return oneMinorAhead(step.Version, running)
		}
	}
	return oneMinorAhead(target, running)
}

// upgradePlan returns the steps of the control plane that Cluster API has published for the requested
// version. Older versions of Cluster API publish none.
func upgradePlan(cluster *clusterv1.Cluster) []clusterv1.StatusUpgradePlanVersion {
	if cluster.Status.ControlPlane == nil {
		return nil
	}
	plan := cluster.Status.ControlPlane.UpgradePlan
	if len(plan) == 0 || !isSameVersion(plan[len(plan)-1].Version, cluster.Spec.Topology.Version) {
		return nil
	}
	return plan
}

// isSameVersion compares versions with their build parts. Cluster API reads versions without "v", too.
func isSameVersion(a, b string) bool { return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") }

// oneMinorAhead returns a newer version if a control plane may be upgraded to it in one step, and
// otherwise "".
func oneMinorAhead(version, running string) string {
	to, from := ParseExactVersion(version), ParseExactVersion(running)
	if to.Major() != from.Major() || to.Minor() > from.Minor()+1 {
		return ""
	}
	return version
}

// NewerVersion returns the desired version if it is newer than the running one, and otherwise "".
func NewerVersion(desired, running string) string {
	to, from := ParseExactVersion(desired), ParseExactVersion(running)
	if to == nil || from == nil || !to.GreaterThan(from) {
		return ""
	}
	return desired
}

// parseVersion parses a Kubernetes version without its pre-release and build parts; nil if it is
// malformed. Vendors fill these parts freely, and they would exclude the version from ranges.
func parseVersion(version string) *semver.Version {
	release, _, _ := strings.Cut(version, "+")
	release, _, _ = strings.Cut(release, "-")
	return ParseExactVersion(release)
}

// ParseExactVersion parses a single version; nil if it is malformed.
func ParseExactVersion(version string) *semver.Version {
	parsed, err := semver.NewVersion(version)
	if err != nil {
		return nil
	}
	return parsed
}
