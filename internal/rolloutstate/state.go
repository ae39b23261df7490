// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rolloutstate

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// HasSpec reports whether a child has exactly a spec. It ignores spec.rollout. Most children have it, and comparing the
// specs takes a fraction of the time of computing their digests.
func HasSpec(child *addonsv1.HelmOpRelease, spec *addonsv1.HelmOpReleaseSpec) bool {
	if spec == nil {
		return false
	}
	assigned := child.Spec
	assigned.Rollout = spec.Rollout
	return equality.Semantic.DeepEqual(spec, &assigned)
}

// Release returns the spec of a child in the type of the plan.
func Release(spec *addonsv1.HelmOpReleaseSpec) (*rollout.Release, error) {
	if spec == nil {
		return nil, nil
	}
	content, err := apiutil.ContentDigest(spec)
	if err != nil {
		return nil, err
	}
	rest, err := apiutil.DigestOf(spec.Artifact, spec.ClusterOptions, spec.KubernetesVersion, spec.Storage,
		spec.DeletionPolicy)
	return &rollout.Release{Identity: Identity(spec), Content: content, Rest: rest}, err
}

// Identity returns the namespace and the name of a release, as "<namespace>/<name>".
func Identity(spec *addonsv1.HelmOpReleaseSpec) string {
	return spec.Release.Namespace + "/" + spec.Release.Name
}

// unrelated are the reasons of a Ready condition for states that do not depend on the attempts at the current spec of a
// release: HelmOp does not act on the release, deletes it, or waits to adopt it.
var unrelated = map[string]bool{
	"":                             true,
	addonsv1.DeletingReason:        true,
	addonsv1.ClusterDeletingReason: true,
	addonsv1.ClusterNotFoundReason: true,
	addonsv1.ControlPlaneNotInitializedReason: true,
	addonsv1.AdoptionPendingReason:            true,
	addonsv1.OtherShardReason:                 true,
}

// Health returns the health of a release with its current spec, and the time from which it has been Ready with this
// spec. A release that failed stays failed during its next attempts, until one of them succeeds.
func Health(child *addonsv1.HelmOpRelease) (rollout.Health, time.Time) {
	ready := conditions.Get(child, addonsv1.ReadyCondition)
	switch {
	case IsUnreachable(child):
		return rollout.HealthUnreachable, time.Time{}
	case ready == nil || ready.ObservedGeneration != child.Generation:
		return rollout.HealthProgressing, time.Time{}
	case ready.Status == metav1.ConditionTrue:
		since := ready.LastTransitionTime.Time
		if assigned := child.Spec.Rollout; assigned != nil && assigned.At.After(since) {
			since = assigned.At.Time
		}
		return rollout.HealthReady, since
	case ready.Status == metav1.ConditionFalse &&
		(hasFailed(child) && !unrelated[ready.Reason] || !reasons.IsWaiting(ready.Reason)):
		return rollout.HealthFailed, time.Time{}
	default:
		return rollout.HealthProgressing, time.Time{}
	}
}

// IsRetrying reports whether a failed release is in another attempt at its current spec. A release that waits for its
// dependencies, for maintenance or for a time is not in an attempt.
func IsRetrying(child *addonsv1.HelmOpRelease) bool {
	health, _ := Health(child)
	reason := conditions.GetReason(child, addonsv1.ReadyCondition)
	return health == rollout.HealthFailed && apiutil.ProgressReasons[reason] && !apiutil.IsAwaiting(child) &&
		!apiutil.IsDeferred(child)
}

// IsUnderWay reports whether a release that is not Ready becomes Ready without a change in its Cluster or by a user. A
// release whose last attempt with its current spec failed is not under way, because all its attempts may fail. If a
// chart cannot be pulled, its release is not under way if a user may have to act, for example to renew a password.
func IsUnderWay(child *addonsv1.HelmOpRelease) bool {
	health, _ := Health(child)
	ready := conditions.Get(child, addonsv1.ReadyCondition)
	mayNeedUser := ready != nil && ready.ObservedGeneration == child.Generation && !reasons.IsPassing(ready.Reason)
	return health == rollout.HealthProgressing && !mayNeedUser && !hasFailed(child) && child.DeletionTimestamp.IsZero() &&
		!conditions.IsTrue(child, addonsv1.PausedCondition) &&
		conditions.GetReason(child, addonsv1.ReadyCondition) != addonsv1.ControlPlaneNotInitializedReason
}

// hasFailed reports whether the last attempt failed, and changed something in the cluster, with the current spec.
// Before such an attempt, a failed pull or another Helm action says nothing about the HelmOp revision.
func hasFailed(child *addonsv1.HelmOpRelease) bool {
	return child.Status.Failures > 0 && child.Status.LastAttemptedGeneration == child.Generation
}

// AwaitsDependencies reports whether a release waits for its dependencies before its current spec takes effect.
func AwaitsDependencies(child *addonsv1.HelmOpRelease) bool {
	return apiutil.IsAwaiting(child) &&
		conditions.Get(child, addonsv1.ReadyCondition).ObservedGeneration == child.Generation
}

// ReadyBefore returns how long a release was Ready with its current spec before its Cluster became unreachable. ok is
// false if it was not Ready.
func ReadyBefore(child *addonsv1.HelmOpRelease) (time.Duration, bool) {
	was, assigned := child.Status.WasReady, child.Spec.Rollout
	if was == nil || assigned == nil || was.Revision != assigned.Revision || was.Until.Before(&assigned.At) {
		return 0, false
	}
	since := was.Since
	if since.Before(&assigned.At) {
		since = assigned.At
	}
	return was.Until.Sub(since.Time), true
}

// WasUnreachableAtDeletion reports whether the Cluster of a release under deletion is unreachable, and was unreachable
// when the deletion began.
func WasUnreachableAtDeletion(child *addonsv1.HelmOpRelease) bool {
	since := conditions.GetLastTransitionTime(child, addonsv1.ClusterReachableCondition)
	return IsUnreachable(child) && since != nil && since.Before(child.DeletionTimestamp)
}

// IsUnreachable reports whether the API server of the Cluster of a release does not answer. While the release is paused
// or waits for its deletion, it reports the last known state, see [apiutil.ReachabilityOf].
func IsUnreachable(child *addonsv1.HelmOpRelease) bool {
	reachable := conditions.Get(child, addonsv1.ClusterReachableCondition)
	return reachable != nil && reachable.Status == metav1.ConditionFalse &&
		reachable.Reason == addonsv1.ClusterUnreachableReason
}

// MaxFailures returns the failure budget of a rollout.
func MaxFailures(spec *addonsv1.Rollout) rollout.Limit {
	if spec.MaxFailures == nil {
		return rollout.Limit{Count: 1}
	}
	return Limit(spec.MaxFailures)
}

// Limit returns a number or a percentage in the type of the plan. For nil, it returns no limit. The API server has
// validated the form of the value.
func Limit(value *intstr.IntOrString) rollout.Limit {
	if value == nil {
		return rollout.Limit{}
	}
	if value.Type == intstr.Int {
		return rollout.Limit{Count: value.IntValue()}
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	if err != nil {
		return rollout.Limit{Count: 1}
	}
	return rollout.Limit{Percent: percent}
}
