// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

const (
	// MaxConditionMessage keeps objects small; the API server would take 32 KiB.
	MaxConditionMessage = 1024

	// MaxEventMessage is what the API server takes for the note of an Event.
	MaxEventMessage = 1024
)

// localAddress is this end of a connection in an error of the network. Its port is another one with each try: left in,
// it would make each try a new message and a write.
var localAddress = regexp.MustCompile(`(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9a-fA-F:%.a-z]+\]):[0-9]+->`)

// SetCondition sets a condition and tells whether its status or its reason is another than before.
func SetCondition(obj conditions.Setter, conditionType string, status metav1.ConditionStatus,
	reason, message string,
) bool {
	// Get points into the list that Set changes, so it must be compared before.
	before := conditions.Get(obj, conditionType)
	message = localAddress.ReplaceAllString(message, "")
	changed := before == nil || before.Status != status || before.Reason != reason
	conditions.Set(obj, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: apiutil.Truncate(message, MaxConditionMessage),
	})
	return changed
}

// ConfirmCondition says that a condition holds for the generation of now, too.
func ConfirmCondition(obj conditions.Setter, conditionType string) {
	if known := conditions.Get(obj, conditionType); known != nil {
		SetCondition(obj, conditionType, known.Status, known.Reason, known.Message)
	}
}

// SetPaused sets the condition Paused.
func SetPaused(obj conditions.Setter, paused bool, message string) {
	if paused {
		SetCondition(obj, addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason, message)
		return
	}
	SetCondition(obj, addonsv1.PausedCondition, metav1.ConditionFalse, addonsv1.NotPausedReason, "")
}

// SetNotReady says that a release is not as it is wanted, and why.
func SetNotReady(release *addonsv1.HelmOpRelease, reason, message string) bool {
	return SetCondition(release, addonsv1.ReadyCondition, metav1.ConditionFalse, reason, message)
}

// Outdated says that nothing is known yet of what is wanted since the spec changed. A pass that ends early must not
// let what was true of another generation stand for this one.
func Outdated(obj conditions.Setter) {
	ready := conditions.Get(obj, addonsv1.ReadyCondition)
	generation := obj.(metav1.Object).GetGeneration()
	if ready != nil && ready.Status == True && ready.ObservedGeneration != generation &&
		!conditions.IsTrue(obj, addonsv1.PausedCondition) {
		SetCondition(obj, addonsv1.ReadyCondition, False, addonsv1.ProgressingReason,
			"the spec changed and was not acted upon yet")
	}
}

// Deleting sets the condition Deleting of an object under deletion. Its reason and message are those of Ready, where
// Ready says what the deletion waits for.
func Deleting(obj conditions.Setter) {
	object := obj.(metav1.Object)
	if object.GetDeletionTimestamp().IsZero() {
		return
	}
	reason, message := addonsv1.DeletingReason, ""
	for _, cause := range []struct {
		condition string
		status    metav1.ConditionStatus
	}{{addonsv1.PausedCondition, True}, {addonsv1.ReadyCondition, False}} {
		known := conditions.Get(obj, cause.condition)
		if known != nil && known.Status == cause.status && known.ObservedGeneration == object.GetGeneration() {
			reason, message = known.Reason, known.Message
			break
		}
	}
	SetCondition(obj, addonsv1.DeletingCondition, True, reason, message)
}
