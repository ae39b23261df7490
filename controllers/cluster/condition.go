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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

const (
	// maxClusterConditions bounds the conditions that HelmOps may add to one Cluster, which has room for 32 in all.
	maxClusterConditions = 8

	// maxNamedReleases bounds the releases that a condition of a Cluster names.
	maxNamedReleases = 3
)

// clusterConditions are the conditions that the HelmOps of its namespace ask for, ordered by type. Every HelmOp that
// selects the Cluster counts, even before its release exists. HelmOps of other namespaces must not change the
// Cluster.
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
			if release != nil && !clusterlife.TakesPart(release, helmOp) {
				release = nil
			}
			count(helmOp.Spec.ClusterCondition, helmOp.Name, release)
		}
	}
	var wanted []metav1.Condition
	for _, conditionType := range slices.Sorted(maps.Keys(total)) {
		if len(wanted) == maxClusterConditions {
			break
		}
		wanted = append(wanted, clusterCondition(conditionType, total[conditionType], unready[conditionType]))
	}
	return wanted
}

// clusterCondition is a condition for a number of releases. unready has, by the names of their HelmOps, why some are
// not Ready.
func clusterCondition(conditionType string, total int, unready map[string]string) metav1.Condition {
	if len(unready) == 0 {
		return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: addonsv1.ReleasesReadyReason,
			Message: fmt.Sprintf("the releases of %d HelmOps are Ready", total)}
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
		Message: apiutil.Truncate(fmt.Sprintf("the releases of %d of %d HelmOps are not Ready; %s", len(unready), total,
			strings.Join(named, "; ")), report.MaxConditionMessage)}
}

// unreadyReason is one word for why a release is not Ready; empty if it is. The message is left out, because it may
// change often.
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
	selector, err := selection.SelectorOf(helmOp)
	return err == nil && selector.Matches(cluster)
}

// changedConditions are the conditions to apply to a Cluster, and whether any differs. A transition time stays as
// long as the status does.
func changedConditions(cluster *clusterv1.Cluster, wanted []metav1.Condition,
	now metav1.Time,
) ([]metav1.Condition, bool) {
	changed := false
	kept := map[string]bool{}
	for i := range wanted {
		kept[wanted[i].Type] = true
		wanted[i].LastTransitionTime = now
		known := conditions.Get(cluster, wanted[i].Type)
		if known != nil && known.Status == wanted[i].Status {
			wanted[i].LastTransitionTime = known.LastTransitionTime
		}
		changed = changed || known == nil || known.Status != wanted[i].Status ||
			known.Reason != wanted[i].Reason || known.Message != wanted[i].Message
	}
	for _, known := range cluster.Status.Conditions {
		changed = changed || isOfHelmOp(known) && !kept[known.Type]
	}
	return wanted, changed
}

// isOfHelmOp reports whether a condition of a Cluster is one that HelmOps publish.
func isOfHelmOp(condition metav1.Condition) bool {
	return condition.Reason == addonsv1.ReleasesReadyReason || condition.Reason == addonsv1.ReleasesNotReadyReason
}
