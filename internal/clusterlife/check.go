// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

// maxCheckVersion is the MaxLength of the version of a check in the status of a HelmOpRelease.
const maxCheckVersion = 256

// UpgradeToCheck is an upgrade of Kubernetes for which a release is checked.
type UpgradeToCheck struct {
	// Version is the requested new version. It may be malformed if the upgrade is not pending.
	Version string

	// Plan are the versions of the steps according to Cluster API; empty if there is no plan for Version.
	Plan []string

	// IsPending is true if the upgrade of the Cluster was requested. Otherwise, an annotation requests the check.
	IsPending bool
}

// UpgradeToCheckOf returns the upgrade that a release is checked for. A pending upgrade takes precedence over the
// annotation. ok is false if no check is requested.
func UpgradeToCheckOf(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease) (upgrade UpgradeToCheck, ok bool) {
	if cluster == nil {
		return UpgradeToCheck{}, false
	}
	upgrade.IsPending = requiresCheck(cluster, release) && isUpgradePending(cluster, release)
	upgrade.Version = apiutil.Truncate(cluster.Annotations[addonsv1.CheckUpgradeAnnotation], maxCheckVersion)
	if upgrade.IsPending {
		upgrade.Version = cluster.Spec.Topology.Version
	}
	if render.IsSameVersion(upgrade.Version, cluster.Spec.Topology.Version) {
		upgrade.Plan = render.PlannedVersions(cluster)
	}
	return upgrade, upgrade.Version != ""
}

// requiresCheck reports whether upgrades of a Cluster wait for the check of a release.
func requiresCheck(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease) bool {
	before := release.Spec.BeforeClusterUpgrade
	return before != nil && before.Preflight == addonsv1.UpgradePreflightRequired &&
		cluster.Namespace == release.Namespace && cluster.Spec.Topology.IsDefined()
}

// isUpgradePending reports whether an upgrade was requested that the control plane of a Cluster has not finished. The
// controller of Clusters records this in the annotations of the HelmOp of a release.
func isUpgradePending(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease) bool {
	name := UpgradeHoldName(client.ObjectKey{Namespace: release.Namespace, Name: apiutil.HelmOpOf(release)})
	return !parseUpgradeHold(cluster.Annotations[name]).since.IsZero() ||
		cluster.Annotations[UpgradeReleasedName(name)] != ""
}

// IsNewMinor reports whether an upgrade from a running version has a new minor version. Other upgrades remove no API,
// so they do not wait for a check. If one of the versions is not known, it returns true.
func IsNewMinor(running, version string) bool {
	from, err := apilifecycle.ParseVersion(running)
	if err != nil {
		return true
	}
	to, err := apilifecycle.ParseVersion(version)
	return err != nil || to.Compare(from) > 0
}

// UpgradeTrigger returns a text that changes whenever the result of UpgradeToCheckOf for a release of a Cluster may
// change.
func UpgradeTrigger(cluster *clusterv1.Cluster) string {
	var parts []string
	for name, value := range cluster.Annotations {
		if name == addonsv1.CheckUpgradeAnnotation || strings.HasPrefix(name, UpgradeHoldPrefix) ||
			strings.HasPrefix(name, addonsv1.UpgradeReleasedAnnotationPrefix+"/") {
			parts = append(parts, name+"="+value)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	// The labels select overrides. The observed generation shows whether Cluster API may still publish a plan.
	parts = append(parts, cluster.Spec.Topology.Version, labels.FormatLabels(cluster.Labels),
		fmt.Sprint(render.HasObserved(cluster)))
	return strings.Join(append(parts, render.PlannedVersions(cluster)...), " ")
}

// requiredCheck returns the result of the check that the upgrade of a Cluster waits for; nil if there is no such check.
// running is the version that the control plane runs; empty if it is not known.
func requiredCheck(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease, running string) (
	found *metav1.Condition, isRequired bool,
) {
	if release == nil || !requiresCheck(cluster, release) || !IsNewMinor(running, cluster.Spec.Topology.Version) {
		return nil, false
	}
	if CheckedVersion(release) == cluster.Spec.Topology.Version {
		found = conditions.Get(release, addonsv1.KubernetesUpgradeReadyCondition)
	}
	return found, true
}

// Blocked returns what a user must do before the upgrade of a Cluster, according to a required check. It is empty if
// the check found nothing, or has not ended. The arguments are the same as for Unready.
func Blocked(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease, running string) string {
	if found, _ := requiredCheck(cluster, release, running); found != nil && found.Status == metav1.ConditionFalse {
		return found.Reason + ": " + found.Message
	}
	return ""
}

// Unready returns why the upgrade of a Cluster waits for a release; empty if the upgrade does not wait. running is the
// version that the control plane runs, empty if it is not known. version is the version of the next step. The result of
// a required check comes first, because it says how to resolve the problem. The release is nil if it does not exist
// yet.
func Unready(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease, running, version string) string {
	if blocked := Blocked(cluster, release, running); blocked != "" {
		return blocked
	}
	found, isRequired := requiredCheck(cluster, release, running)
	why := UnreadyFor(release, version)
	switch {
	case why != "" || !isRequired:
		return why
	case found == nil || found.Status == metav1.ConditionTrue && found.ObservedGeneration != release.Generation:
		return "the release is not checked for " + cluster.Spec.Topology.Version + " yet"
	case found.Status != metav1.ConditionTrue:
		return found.Reason + ": " + found.Message
	default:
		return ""
	}
}

// CheckedVersion returns the version in the condition KubernetesUpgradeReady of a release; empty if the release does
// not have the condition.
func CheckedVersion(release *addonsv1.HelmOpRelease) string {
	if check := release.Status.UpgradeCheck; check != nil {
		return check.Version
	}
	return ""
}
