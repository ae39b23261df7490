// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// The statuses of conditions, in short.
const (
	True = metav1.ConditionTrue

	False = metav1.ConditionFalse
)

// OneTrouble is for how long the messages are the same that different requests end with at a Cluster that ceases to
// answer.
const OneTrouble = time.Minute

// OrphanHint says how to delete the HelmOpRelease of a cluster that is lost.
const OrphanHint = "; if the cluster is lost, set spec.deletionPolicy of the HelmOp to Orphan: the HelmOpRelease is " +
	"then deleted without an uninstallation"

// Unreachable leaves Released as it is: nothing is known to have changed. The first message stands for a while:
// connections that break are lost, reset and refused one after the other, which is one trouble and one write.
func Unreachable(release *addonsv1.HelmOpRelease, message string) {
	noteWasReady(release)
	known := conditions.Get(release, addonsv1.ClusterReachableCondition)
	if known != nil && known.Reason == addonsv1.ClusterUnreachableReason &&
		time.Since(known.LastTransitionTime.Time) < OneTrouble {
		message = known.Message
	}
	if !release.DeletionTimestamp.IsZero() {
		message = strings.TrimSuffix(message, OrphanHint) + OrphanHint
	}
	release.Status.State, release.Status.NextTryAt = string(model.StateUnreachable), metav1.Time{}
	SetCondition(release, addonsv1.ClusterReachableCondition, False, addonsv1.ClusterUnreachableReason, message)
	SetNotReady(release, addonsv1.ClusterUnreachableReason, message)
}

// noteWasReady notes that a release was ready when its Cluster ceased to answer, or that it was not. While nobody knows
// how it is, the last that was known stands.
func noteWasReady(release *addonsv1.HelmOpRelease) {
	ready, status := conditions.Get(release, addonsv1.ReadyCondition), &release.Status
	switch {
	case ready == nil || ready.Reason == addonsv1.ClusterUnreachableReason:
	case ready.Status == True && ready.ObservedGeneration == release.Generation && release.Spec.Rollout != nil:
		status.WasReady = &addonsv1.ReadyPeriod{Revision: release.Spec.Rollout.Revision, Since: ready.LastTransitionTime,
			Until: metav1.Now()}
	case !apiutil.ProgressReasons[ready.Reason]:
		status.WasReady = nil
	}
}
