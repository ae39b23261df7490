// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

const (
	// MaxConditionMessage is the limit, in bytes, of a condition's message. It keeps objects small: the API server would
	// accept 32 KiB.
	MaxConditionMessage = 1024

	// MaxEventMessage is the limit, in bytes, that the API server sets for the note of an Event.
	MaxEventMessage = 1024
)

// localAddress matches the local address of a connection in the text of a network error. The local port differs with
// each try. So SetCondition removes the address: otherwise each try would have a new message and cause a write.
var localAddress = regexp.MustCompile(`(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9a-fA-F:%.a-z]+\]):[0-9]+->`)

// plainWord matches the first word of a message if the word is an ordinary word. Names of objects and fields contain
// other characters, or a colon follows them.
var plainWord = regexp.MustCompile(`^[a-z]+(?:[-'][a-z]+)*,? `)

// programName matches the name of a program at the beginning of a message.
var programName = regexp.MustCompile(`^(?:clusterctl|helm|kubectl) `)

// styled returns a message in the style of all conditions. The message begins with a capital letter, unless it begins
// with a name. It ends with a full stop only if it has several sentences. So the text of an error can be used as a
// message.
func styled(message string) string {
	if plainWord.MatchString(message) && !programName.MatchString(message) {
		message = strings.ToUpper(message[:1]) + message[1:]
	}
	if one, hasStop := strings.CutSuffix(message, "."); hasStop && !strings.HasSuffix(one, ".") &&
		!strings.Contains(one, ". ") {
		return one
	}
	return message
}

// KeepTimes sets the times of transitions in current conditions to the stored times, if the conditions are otherwise
// equal. A pass may change a condition twice, or may have written the same conditions before. Otherwise each such
// condition would cause another write in the next second.
func KeepTimes(stored, current []metav1.Condition) {
	for i := range current {
		for j := range stored {
			equal := stored[j]
			equal.LastTransitionTime = current[i].LastTransitionTime
			if equal == current[i] {
				current[i].LastTransitionTime = stored[j].LastTransitionTime
			}
		}
	}
}

// SetCondition sets a condition and reports whether its status or its reason changed. It writes the message in the
// style of all conditions and truncates it to MaxConditionMessage.
func SetCondition(obj conditions.Setter, conditionType string, status metav1.ConditionStatus,
	reason, message string,
) bool {
	// Get returns a pointer into the list that Set changes, so compare before the call of Set.
	before := conditions.Get(obj, conditionType)
	message = styled(localAddress.ReplaceAllString(message, ""))
	changed := before == nil || before.Status != status || before.Reason != reason
	conditions.Set(obj, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: apiutil.Truncate(message, MaxConditionMessage),
	})
	return changed
}

// ConfirmCondition sets the observed generation of a condition to the current generation of the object. It does nothing
// if the object does not have the condition.
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

// SetNotReady sets the condition Ready of a release to False, and reports whether the status or the reason changed.
func SetNotReady(release *addonsv1.HelmOpRelease, reason, message string) bool {
	return SetCondition(release, addonsv1.ReadyCondition, metav1.ConditionFalse, reason, message)
}

// isOutdated reports whether a condition of an object is True for an earlier generation.
func isOutdated(obj conditions.Setter, condition string) bool {
	known := conditions.Get(obj, condition)
	return known != nil && known.Status == True && known.ObservedGeneration != obj.(metav1.Object).GetGeneration()
}

// Outdated sets the condition Ready to False if it is True for an earlier generation and the object is not paused. It
// also removes the condition Stalled of an earlier generation. A pass that ends early must not leave conditions about
// an earlier spec.
func Outdated(obj conditions.Setter) {
	object := obj.(metav1.Object)
	if isOutdated(obj, addonsv1.StalledCondition) {
		conditions.Delete(obj, addonsv1.StalledCondition)
	}
	if !isOutdated(obj, addonsv1.ReadyCondition) || conditions.IsTrue(obj, addonsv1.PausedCondition) {
		return
	}
	reason, message := addonsv1.ProgressingReason, "The spec changed and is not reconciled yet"
	if !object.GetDeletionTimestamp().IsZero() {
		reason, message = addonsv1.DeletingReason, "The deletion has begun"
	}
	SetCondition(obj, addonsv1.ReadyCondition, False, reason, message)
}

// Deleting sets the condition Deleting of an object under deletion. The reason and the message are copied from Ready if
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
