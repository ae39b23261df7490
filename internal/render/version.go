// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// kubernetesVersion returns the Kubernetes version that selects the variant for a Cluster: the
// version that its control plane runs. With ahead (spec.beforeClusterUpgrade), the release must be
// ready before an upgrade, so it is the version of a pending upgrade. It stays that version from
// the request until the control plane runs it, even if the upgrade is no longer held. Otherwise,
// the release would return to the old variant during the upgrade. Empty if the version is unknown.
func kubernetesVersion(cluster *clusterv1.Cluster, controlPlane map[string]any, ahead bool) string {
	if ahead {
		if upcoming := upcomingVersion(cluster, controlPlane); upcoming != "" {
			return upcoming
		}
	}
	if running := RunningVersion(controlPlane); running != "" {
		return running
	}
	return cluster.Spec.Topology.Version
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

// upcomingVersion returns the version that a Cluster of a ClusterClass is about to be upgraded to:
// its topology has a newer version than its control plane runs. Empty if there is no upgrade. An
// older version in the topology is not an upgrade; Cluster API refuses it.
func upcomingVersion(cluster *clusterv1.Cluster, controlPlane map[string]any) string {
	return NewerVersion(cluster.Spec.Topology.Version, RunningVersion(controlPlane))
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
