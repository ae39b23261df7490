// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// SortedConditions returns conditions in the order of their types, Ready first.
func SortedConditions(conditions []metav1.Condition) []metav1.Condition {
	sorted := slices.Clone(conditions)
	slices.SortStableFunc(sorted, func(a, b metav1.Condition) int {
		switch {
		case a.Type == b.Type:
			return 0
		case a.Type == addonsv1.ReadyCondition:
			return -1
		case b.Type == addonsv1.ReadyCondition:
			return 1
		default:
			return strings.Compare(a.Type, b.Type)
		}
	})
	return sorted
}

// WaveStates returns the state of each wave of spec.rollout: Done, Current, Not begun, or nothing if it is not known.
func WaveStates(helmOp *addonsv1.HelmOp) []string {
	r := helmOp.Status.Rollout
	if r == nil || helmOp.Spec.Rollout == nil {
		return nil
	}
	states, reached := make([]string, len(helmOp.Spec.Rollout.Waves)), false
	for i := range states {
		switch {
		case IsEnded(r.Phase) && r.Phase != addonsv1.RolloutPhaseComplete:
		case helmOp.Spec.Rollout.Waves[i].Name == r.Wave:
			states[i], reached = "Current", true
		case reached:
			states[i] = "Not begun"
		case r.Phase == addonsv1.RolloutPhasePaused:
			// In the other phases, the status names no wave.
		default:
			states[i] = "Done"
		}
	}
	return states
}

// RevisionsOf returns the HelmOp revisions in a list that belong to a HelmOp, the newest last. The manager does not use
// revisions under deletion.
func RevisionsOf(helmOp *addonsv1.HelmOp, items []*addonsv1.HelmOpRevision) []*addonsv1.HelmOpRevision {
	items = slices.DeleteFunc(items, func(r *addonsv1.HelmOpRevision) bool {
		return r.Name != apiutil.RevisionName(helmOp.Name, r.Spec.Number) || !r.DeletionTimestamp.IsZero()
	})
	slices.SortFunc(items, func(a, b *addonsv1.HelmOpRevision) int { return int(a.Spec.Number - b.Spec.Number) })
	return items
}

// MarkOf returns what the status of a release reports about one of its objects; empty if the status does not name the
// object.
func MarkOf(release *addonsv1.HelmOpRelease, kind, object string) string {
	if healthy := conditions.Get(release, addonsv1.HealthyCondition); healthy != nil &&
		healthy.Status != metav1.ConditionTrue {
		if _, rest, ok := strings.Cut(" "+healthy.Message, " "+kind+" "+object+": "); ok {
			mark, _, _ := strings.Cut(rest, ";")
			return strings.TrimSpace(mark)
		}
	}
	if release.Status.Drift == nil {
		return ""
	}
	for _, drifted := range release.Status.Drift.Objects {
		name := strings.TrimPrefix(drifted.Namespace+"/"+drifted.Name, "/")
		switch {
		case drifted.Kind != kind || name != object:
		case drifted.Missing:
			return "missing"
		default:
			return "differs in " + strings.Join(drifted.Paths, ", ")
		}
	}
	return ""
}
