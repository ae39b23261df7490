// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// maxClusterConditions is the number of conditions that HelmOps may add to one Cluster. A Cluster may have 32
	// conditions in all.
	maxClusterConditions = 8

	// maxNamedReleases is the number of releases that a message about a Cluster names.
	maxNamedReleases = 3
)

// clusterConditions returns the conditions that HelmOps request for a Cluster, ordered by type. Every HelmOp in the
// namespace of the Cluster that selects the Cluster counts, even before its release exists. HelmOps of other namespaces
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
		if helmOp.Spec.ClusterCondition != "" && helmOp.DeletionTimestamp.IsZero() && selects(helmOp, cluster) {
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
	return desired
}

// clusterCondition returns the condition for a number of releases. unready has the reasons of the releases that are not
// Ready, by the names of their HelmOps.
func clusterCondition(conditionType string, total int, unready map[string]string) metav1.Condition {
	if len(unready) == 0 {
		return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: addonsv1.ReleasesReadyReason,
			Message: fmt.Sprintf("The %s of %s Ready", plural.Word(total, "release", "releases"),
				plural.Count(total, "HelmOp is", "HelmOps are"))}
	}
	var named []string
	for _, name := range slices.Sorted(maps.Keys(unready)) {
		if len(named) == maxNamedReleases {
			named = append(named, "…")
			break
		}
		named = append(named, "HelmOp "+name+": "+unready[name])
	}
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: addonsv1.ReleasesNotReadyReason,
		Message: apiutil.Truncate(fmt.Sprintf("The %s of %d of %s %s not Ready: %s",
			plural.Word(len(unready), "release", "releases"), len(unready), plural.Count(total, "HelmOp", "HelmOps"),
			plural.Word(len(unready), "is", "are"), strings.Join(named, "; ")), report.MaxConditionMessage)}
}

// unreadyReason returns why a release is not Ready, in a few words; empty if the release is Ready. The message of the
// condition Ready is left out, because it may change often.
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

// selects reports whether a HelmOp selects a Cluster of its own namespace. A malformed selector selects nothing.
func selects(helmOp *addonsv1.HelmOp, cluster metav1.Object) bool {
	return clusterlife.Selects(helmOp, cluster)
}

// changedConditions returns the conditions to apply to a Cluster, and whether one of them differs from the observed
// condition. The transition time of a condition changes only with its status.
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
	return condition.Reason == addonsv1.ReleasesReadyReason || condition.Reason == addonsv1.ReleasesNotReadyReason
}
