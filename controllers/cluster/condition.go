// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// maxClusterConditions is the largest number of conditions that HelmOps may add to one Cluster, in addition to the
	// condition about upgrades of Kubernetes. The API permits 32 conditions of a Cluster.
	maxClusterConditions = 8

	// maxNamedReleases is the largest number of releases that a message about a Cluster names.
	maxNamedReleases = 3
)

// clusterConditions returns the conditions that HelmOps request for a Cluster, sorted by type. It counts every HelmOp
// in the namespace of the Cluster that selects the Cluster, even before its release exists. HelmOps of other namespaces
// must not change the Cluster.
func clusterConditions(cluster *clusterv1.Cluster, helmOps []addonsv1.HelmOp,
	releases []addonsv1.HelmOpRelease,
) []metav1.Condition {
	byHelmOp := map[string]*addonsv1.HelmOpRelease{}
	unready := map[string]map[string]string{}
	total := map[string]int{}
	count := func(conditionType string, name string, release *addonsv1.HelmOpRelease) {
		total[conditionType]++
		if why := unreadyReason(release); why != "" {
			if unready[conditionType] == nil {
				unready[conditionType] = map[string]string{}
			}
			unready[conditionType][name] = why
		}
	}
	for i := range releases {
		byHelmOp[apiutil.HelmOpOf(&releases[i])] = &releases[i]
	}
	for i := range helmOps {
		helmOp := &helmOps[i]
		if helmOp.Spec.ClusterCondition != "" && helmOp.DeletionTimestamp.IsZero() && clusterlife.Selects(helmOp, cluster) {
			release := byHelmOp[helmOp.Name]
			if release != nil && !clusterlife.MayAffectCluster(release, helmOp) {
				release = nil
			}
			count(helmOp.Spec.ClusterCondition, helmOp.Name, release)
		}
	}
	var desired []metav1.Condition
	for _, conditionType := range slices.Sorted(maps.Keys(total)) {
		if len(desired) == maxClusterConditions {
			break
		}
		desired = append(desired, clusterCondition(conditionType, total[conditionType], unready[conditionType]))
	}
	if upgrade := upgradeCondition(cluster, releases); upgrade != nil {
		desired = append(desired, *upgrade)
	}
	return desired
}

// upgradeCondition returns the condition with the results of the checks of releases for an upgrade of Kubernetes; nil
// if no check is requested. It ignores results for another version, and a result True for an older spec of the release.
func upgradeCondition(cluster *clusterv1.Cluster, releases []addonsv1.HelmOpRelease) *metav1.Condition {
	var total int
	versions, unready, unchecked := sets.Set[string]{}, map[string]string{}, map[string]string{}
	for i := range releases {
		release := &releases[i]
		upgrade, ok := clusterlife.UpgradeToCheckOf(cluster, release)
		if !ok || !release.DeletionTimestamp.IsZero() {
			continue
		}
		total++
		versions.Insert(upgrade.Version)
		result, name := conditions.Get(release, addonsv1.KubernetesUpgradeReadyCondition), apiutil.HelmOpOf(release)
		switch {
		case result == nil || clusterlife.CheckedVersion(release) != upgrade.Version,
			result.Status == metav1.ConditionTrue && result.ObservedGeneration != release.Generation:
			unchecked[name] = addonsv1.UpgradeCheckPendingReason
		case result.Status == metav1.ConditionTrue &&
			conditions.GetReason(release, addonsv1.ReadyCondition) == addonsv1.OtherShardReason:
			unchecked[name] = addonsv1.OtherShardReason
		case result.Status == metav1.ConditionFalse:
			unready[name] = result.Reason
		case result.Status != metav1.ConditionTrue:
			unchecked[name] = result.Reason
		}
	}
	if total == 0 {
		return nil
	}
	condition := &metav1.Condition{Type: addonsv1.ClusterUpgradeReadyType}
	to := "Kubernetes " + strings.Join(sets.List(versions), " and ")
	of := plural.Count(total, "release", "releases")
	switch n, m := len(unready), len(unchecked); {
	case n > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, addonsv1.ReleasesNotReadyReason
		condition.Message = fmt.Sprintf("%d of %s %s not ready for %s: %s. The condition %s of each HelmOpRelease has the "+
			"way out", n, of, plural.Word(n, "is", "are"), to, named(unready), addonsv1.KubernetesUpgradeReadyCondition)
	case m > 0:
		condition.Status, condition.Reason = metav1.ConditionUnknown, addonsv1.ReleasesNotCheckedReason
		condition.Message = fmt.Sprintf("%d of %s %s not checked for %s: %s", m, of, plural.Word(m, "is", "are"), to,
			named(unchecked))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, addonsv1.ReleasesReadyReason
		condition.Message = fmt.Sprintf("%s ready for %s", plural.Count(total, "release is", "releases are"), to)
	}
	condition.Message = apiutil.Truncate(condition.Message, report.MaxConditionMessage)
	return condition
}

// leaveOpen replaces a result True of the checks with Unknown: the releases of HelmOps of other shards are not known,
// and may not be ready.
func leaveOpen(desired []metav1.Condition) {
	for i := range desired {
		if desired[i].Type == addonsv1.ClusterUpgradeReadyType && desired[i].Status == metav1.ConditionTrue {
			desired[i].Status, desired[i].Reason = metav1.ConditionUnknown, addonsv1.ReleasesNotCheckedReason
			desired[i].Message = "The Cluster has releases of HelmOps of other shards, which are not checked: give the " +
				"HelmOps and the Cluster the same label " + addonsv1.ShardLabel
		}
	}
}

// named returns the names of the first HelmOps, with the reasons of their releases.
func named(why map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(why)) {
		if len(texts) == maxNamedReleases {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, "HelmOp "+name+": "+why[name])
	}
	return strings.Join(texts, "; ")
}

// clusterCondition returns the condition for a number of releases. unready holds the reasons of the releases that are
// not Ready, by the names of their HelmOps.
func clusterCondition(conditionType string, total int, unready map[string]string) metav1.Condition {
	if len(unready) == 0 {
		return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: addonsv1.ReleasesReadyReason,
			Message: fmt.Sprintf("The %s of %s Ready", plural.Word(total, "release", "releases"),
				plural.Count(total, "HelmOp is", "HelmOps are"))}
	}
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: addonsv1.ReleasesNotReadyReason,
		Message: apiutil.Truncate(fmt.Sprintf("The %s of %d of %s %s not Ready: %s",
			plural.Word(len(unready), "release", "releases"), len(unready), plural.Count(total, "HelmOp", "HelmOps"),
			plural.Word(len(unready), "is", "are"), named(unready)), report.MaxConditionMessage)}
}

// unreadyReason returns why a release is not Ready, in a few words; empty if the release is Ready. It does not use the
// message of the condition Ready, because this message may change often.
func unreadyReason(release *addonsv1.HelmOpRelease) string {
	if release == nil {
		return "no release yet"
	}
	switch ready := conditions.Get(release, addonsv1.ReadyCondition); {
	case ready == nil:
		return addonsv1.ProgressingReason
	case ready.Status != metav1.ConditionTrue:
		return ready.Reason
	default:
		return ""
	}
}

// changedConditions returns the conditions to apply to a Cluster. hasChanged is true if one of them differs from the
// observed condition. The transition time of a condition changes only with its status.
func changedConditions(cluster *clusterv1.Cluster, desired []metav1.Condition,
	now metav1.Time,
) ([]metav1.Condition, bool) {
	changed := false
	kept := map[string]bool{}
	for i := range desired {
		kept[desired[i].Type] = true
		desired[i].LastTransitionTime = now
		known := conditions.Get(cluster, desired[i].Type)
		if known != nil && known.Status == desired[i].Status {
			desired[i].LastTransitionTime = known.LastTransitionTime
		}
		changed = changed || known == nil || known.Status != desired[i].Status ||
			known.Reason != desired[i].Reason || known.Message != desired[i].Message
	}
	for _, known := range cluster.Status.Conditions {
		changed = changed || isOfHelmOp(known) && !kept[known.Type]
	}
	return desired, changed
}

// isOfHelmOp reports whether a condition of a Cluster was published by HelmOps.
func isOfHelmOp(condition metav1.Condition) bool {
	return condition.Reason == addonsv1.ReleasesReadyReason || condition.Reason == addonsv1.ReleasesNotReadyReason ||
		condition.Reason == addonsv1.ReleasesNotCheckedReason
}
