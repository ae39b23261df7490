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

// Short names for the statuses of conditions.
const (
	True = metav1.ConditionTrue

	False = metav1.ConditionFalse
)

// UnreachableMessagePeriod is how long the first message stays after a Cluster became unreachable. Later requests may
// fail with other errors.
const UnreachableMessagePeriod = time.Minute

// OrphanHint is the part of a message that says how to delete the HelmOpRelease of a lost cluster. It does not name
// deletionPolicy, because this field also orphans the releases of the other clusters, and does not end the wait of a
// release that HelmOp must take over after a move.
const OrphanHint = "; if the cluster is lost, set the annotation " + addonsv1.OrphanAnnotation + "=true on the " +
	"HelmOpRelease: it is then deleted without an uninstallation"

// Unreachable sets ClusterReachable and Ready of a release to False. It does not change Released, because the release
// has not changed as far as HelmOp knows. The first message stays for UnreachableMessagePeriod. While a cluster becomes
// unreachable, connections are first lost, then reset, then refused, and each new message would be a write.
func Unreachable(release *addonsv1.HelmOpRelease, message string) {
	noteWasReady(release)
	known := conditions.Get(release, addonsv1.ClusterReachableCondition)
	if known != nil && known.Reason == addonsv1.ClusterUnreachableReason &&
		time.Since(known.LastTransitionTime.Time) < UnreachableMessagePeriod {
		message = known.Message
	}
	if !release.DeletionTimestamp.IsZero() {
		message = strings.TrimSuffix(message, OrphanHint) + OrphanHint
	}
	release.Status.State, release.Status.NextTryAt = string(model.StateUnreachable), metav1.Time{}
	SetCondition(release, addonsv1.ClusterReachableCondition, False, addonsv1.ClusterUnreachableReason, message)
	SetNotReady(release, addonsv1.ClusterUnreachableReason, message)
}

// NotConnecting sets Ready of a release to False for a reason for which HelmOp does not connect to the Cluster. It
// reports whether the status or the reason changed.
func NotConnecting(release *addonsv1.HelmOpRelease, reason, message string) bool {
	ClearReachable(release)
	return SetNotReady(release, reason, message)
}

// ClearReachable removes the condition ClusterReachable of a release for which HelmOp does not connect to the Cluster:
// HelmOp does not notice when its API server stops to answer, or answers again. A release under deletion keeps the
// status False: the limits for deletions depend on when the Cluster became unreachable, see
// [rolloutstate.WasUnreachableAtDeletion].
func ClearReachable(release *addonsv1.HelmOpRelease) {
	if release.DeletionTimestamp.IsZero() || !conditions.IsFalse(release, addonsv1.ClusterReachableCondition) {
		conditions.Delete(release, addonsv1.ClusterReachableCondition)
	}
}

// noteWasReady sets status.wasReady when a Cluster becomes unreachable. It sets the time for which the release was
// Ready, or nil if the release had failed. It does not change the field of a release that was progressing.
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
