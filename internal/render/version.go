// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// kubernetesVersion is the version of Kubernetes that counts for what a Cluster gets: what its control plane runs or,
// with ahead, what it is about to run. Ahead is that the release is to be ready before an upgrade
// (spec.beforeClusterUpgrade); it holds from the moment a newer version is wanted until it runs, whether the upgrade is
// still held by then or not: else the release would fall back in the middle of the upgrade. Empty if it is not known.
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

// RunningVersion is the version that a control plane runs or, where it does not tell, was made with. Empty if neither
// is known.
func RunningVersion(controlPlane map[string]any) string {
	for _, section := range []string{"status", "spec"} {
		if version, _, _ := unstructured.NestedString(controlPlane, section, "version"); version != "" {
			return version
		}
	}
	return ""
}

// upcomingVersion is the version that a Cluster of a ClusterClass is to be upgraded to, empty if there is none: its
// topology names a newer one than its control plane runs. A topology that names an older one is no upgrade; Cluster API
// refuses it.
func upcomingVersion(cluster *clusterv1.Cluster, controlPlane map[string]any) string {
	return NewerVersion(cluster.Spec.Topology.Version, RunningVersion(controlPlane))
}

// NewerVersion is the version that is wanted if it is newer than the one that runs, else empty.
func NewerVersion(wanted, running string) string {
	to, from := ParseExactVersion(wanted), ParseExactVersion(running)
	if to == nil || from == nil || !to.GreaterThan(from) {
		return ""
	}
	return wanted
}

// parseVersion reads a version of Kubernetes without its pre-release and build parts, which vendors fill as they like
// and which would keep it out of ranges; nil if it is none.
func parseVersion(version string) *semver.Version {
	release, _, _ := strings.Cut(version, "+")
	release, _, _ = strings.Cut(release, "-")
	return ParseExactVersion(release)
}

// ParseExactVersion parses a version that is no range.
func ParseExactVersion(version string) *semver.Version {
	parsed, err := semver.NewVersion(version)
	if err != nil {
		return nil
	}
	return parsed
}
