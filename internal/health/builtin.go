// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rule returns the health of an object and the cause. If the last result is false, kstatus determines the health.
type rule func(obj *unstructured.Unstructured) (Status, string, bool)

// rules are the exceptions from kstatus, by kind.
var rules = map[schema.GroupKind]rule{
	{Kind: "Pod"}:                                         pod,
	{Kind: "PersistentVolumeClaim"}:                       volumeClaim,
	{Group: "batch", Kind: "Job"}:                         job,
	{Group: "apps", Kind: "DaemonSet"}:                    daemonSet,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}: apiService,
}

// reasons are texts for the reasons of kstatus. The messages of kstatus are not used, because they count replicas.
var reasons = map[string]string{
	"LatestGenerationNotObserved": "its controller has not observed the latest change",
	"NoObservedGeneration":        "its controller has not observed it yet",
	"NoGeneration":                "its controller has not observed it yet",
	"NoDesiredNumber":             "its controller has not observed it yet",
	"LessReplicas":                "not all pods exist",
	"LessCurrent":                 "not all pods exist",
	"LessLabelled":                "not all pods exist",
	"LessUpdated":                 "not all pods are updated to the latest revision",
	"PartitionRollout":            "not all pods are updated to the latest revision",
	"RevisionMismatch":            "not all pods are updated to the latest revision",
	"ExtraPods":                   "pods of an older revision are still running",
	"LessAvailable":               "not all pods are available",
	"LessReady":                   "not all pods are ready",
	"ReplicaSetNotAvailable":      "its latest revision is not rolled out yet",
	"DeploymentNotAvailable":      "not enough pods are available",
	"ProgressDeadlineExceeded":    "its rollout has exceeded its deadline",
	"ReplicaFailure":              "its pods cannot be created",
	"NotBound":                    "is not bound to a volume",
	"NoIPAssigned":                "has no cluster IP",
}

// builtIn returns the health of an object by the rules for its kind and by kstatus.
func builtIn(obj *unstructured.Unstructured) (Status, string) {
	if special := rules[obj.GroupVersionKind().GroupKind()]; special != nil {
		if state, message, ok := special(obj); ok {
			return state, message
		}
	}
	return byKstatus(obj)
}

func byKstatus(obj *unstructured.Unstructured) (Status, string) {
	result, err := status.Compute(obj)
	if err != nil {
		return Unknown, "its status cannot be evaluated"
	}
	switch result.Status {
	case status.CurrentStatus:
		return Current, ""
	case status.InProgressStatus:
		return InProgress, explain(obj, result)
	case status.FailedStatus:
		return Failed, explain(obj, result)
	case status.TerminatingStatus:
		return Terminating, "is being deleted"
	default:
		return Unknown, "its status cannot be evaluated"
	}
}

// explain returns the reason why kstatus does not find an object current.
func explain(obj *unstructured.Unstructured, result *status.Result) string {
	var reason, message string
	if len(result.Conditions) > 0 {
		reason, message = result.Conditions[0].Reason, result.Conditions[0].Message
	}
	if words, ok := reasons[reason]; ok {
		return words
	}
	// The message of a condition may contain counters. So it is used only in a final state.
	text := "is not ready"
	if result.Status == status.FailedStatus {
		text = "has failed"
	}
	if reason != "" {
		text += ": " + reason
	}
	if result.Status == status.FailedStatus && message != "" && obj.GetKind() != "Secret" {
		text += ": " + message
	}
	return text
}

// condition returns the status and the reason of a condition; empty if there is none.
func condition(obj *unstructured.Unstructured, kind string) (value, reason string) {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range conditions {
		fields, ok := item.(map[string]any)
		if !ok || fields["type"] != kind {
			continue
		}
		value, _ = fields["status"].(string)
		reason, _ = fields["reason"].(string)
		return value, reason
	}
	return "", ""
}

func text(obj *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(obj.Object, path...)
	return value
}

func pod(obj *unstructured.Unstructured) (Status, string, bool) {
	switch text(obj, "status", "phase") {
	case string(corev1.PodSucceeded):
		return Current, "", true
	case string(corev1.PodFailed):
		return Failed, "has failed", true
	case string(corev1.PodRunning):
		if ready, _ := condition(obj, string(corev1.PodReady)); ready == string(corev1.ConditionTrue) {
			return Current, "", true
		}
		return InProgress, "is running but not ready", true
	default:
		if _, reason := condition(obj, string(corev1.PodScheduled)); reason == corev1.PodReasonUnschedulable {
			return InProgress, "cannot be scheduled to a node", true
		}
		return InProgress, "is not running yet", true
	}
}

// annProvisioner are the annotations that Kubernetes sets when it requests a volume from a provisioner.
var annProvisioner = []string{"volume.kubernetes.io/storage-provisioner",
	"volume.beta.kubernetes.io/storage-provisioner"}

func volumeClaim(obj *unstructured.Unstructured) (Status, string, bool) {
	switch text(obj, "status", "phase") {
	case string(corev1.ClaimLost):
		return Failed, "has lost its volume", true
	case string(corev1.ClaimPending):
		annotations := obj.GetAnnotations()
		for _, name := range annProvisioner {
			if annotations[name] != "" {
				return InProgress, reasons["NotBound"], true
			}
		}
		if text(obj, "spec", "storageClassName") != "" {
			return Current, "", true
		}
	}
	return "", "", false
}

func job(obj *unstructured.Unstructured) (Status, string, bool) {
	if complete, _ := condition(obj, "Complete"); complete == string(corev1.ConditionTrue) {
		return Current, "", true
	}
	for _, kind := range []string{"Failed", "FailureTarget"} {
		if failed, reason := condition(obj, kind); failed == string(corev1.ConditionTrue) {
			return Failed, "has failed: " + reason, true
		}
	}
	if suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend"); suspended {
		return Current, "", true
	}
	return InProgress, "has not completed", true
}

// daemonSet makes kstatus ignore the revision of pods if only a user replaces them (OnDelete).
func daemonSet(obj *unstructured.Unstructured) (Status, string, bool) {
	if text(obj, "spec", "updateStrategy", "type") != "OnDelete" {
		return "", "", false
	}
	desired, found, err := unstructured.NestedInt64(obj.Object, "status", "desiredNumberScheduled")
	if err != nil || !found {
		return "", "", false
	}
	counted := obj.DeepCopy()
	_ = unstructured.SetNestedField(counted.Object, desired, "status", "updatedNumberScheduled")
	_ = unstructured.SetNestedField(counted.Object, "RollingUpdate", "spec", "updateStrategy", "type")
	state, message := byKstatus(counted)
	return state, message, true
}

func apiService(obj *unstructured.Unstructured) (Status, string, bool) {
	switch available, reason := condition(obj, "Available"); {
	case available == string(corev1.ConditionTrue):
		return Current, "", true
	case reason != "":
		return InProgress, "does not respond: " + reason, true
	default:
		return InProgress, "does not respond yet", true
	}
}
