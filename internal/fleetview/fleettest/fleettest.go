// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleettest has the HelmOps, releases and Clusters that the tests of internal/fleetview and of its callers
// share. It is only for tests. Callers may change the objects, because each call creates new ones.
package fleettest

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// Condition parses "Ready=False/UpgradeFailed".
func Condition(text string) metav1.Condition {
	name, rest, _ := strings.Cut(text, "=")
	status, reason, _ := strings.Cut(rest, "/")
	return metav1.Condition{Type: name, Status: metav1.ConditionStatus(status), Reason: reason, ObservedGeneration: 3}
}

// Rolling returns a HelmOp whose revision 7 is rolled out in the waves one and two.
func Rolling(change func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", Generation: 3,
		Annotations: map[string]string{}}}
	helmOp.Spec.Rollout = &addonsv1.Rollout{Waves: []addonsv1.Wave{{Name: "one"}, {Name: "two"}}}
	helmOp.Status.ObservedGeneration = 3
	helmOp.Status.Conditions = []metav1.Condition{Condition("Ready=True/Ready")}
	helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: 7, LastGoodRevision: 6, Wave: "one",
		Phase: addonsv1.RolloutPhaseProgressing, WaitingFor: "1 of 2 Clusters of wave one to be ready"}
	if change != nil {
		change(helmOp)
	}
	return helmOp
}

// Phase sets the phase of the rollout.
func Phase(phase addonsv1.RolloutPhase) func(*addonsv1.HelmOp) {
	return func(h *addonsv1.HelmOp) { h.Status.Rollout.Phase = phase }
}

// Deleting makes HelmOp delete the HelmOp.
func Deleting(h *addonsv1.HelmOp) {
	h.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	h.Status.Conditions = []metav1.Condition{Condition("Ready=False/Deleting")}
}

// Awaiting makes the rollout wait for the promotion of wave one.
func Awaiting(h *addonsv1.HelmOp) {
	h.Status.Rollout.WaitingFor = "the promotion of wave one: kubectl -n ns annotate helmops.addons.cluster.x-k8s.io h " +
		"--overwrite addons.cluster.x-k8s.io/rollout-promote=7/one"
}

// AwaitingApproval makes the rollout wait for the approval of a digest.
func AwaitingApproval(digest string) func(*addonsv1.HelmOp) {
	return func(h *addonsv1.HelmOp) {
		h.Status.Rollout.Approval = &addonsv1.RolloutApproval{Revision: 7, Digest: digest, Waiting: 2}
	}
}

// Approved is a rollout that was approved.
func Approved(h *addonsv1.HelmOp) {
	h.Status.Rollout.Approval = &addonsv1.RolloutApproval{Revision: 7, Digest: "abc", Approved: true}
}

// Objects returns a HelmOp with releases in the Clusters a, ns2/b and the management cluster, and no release in c and
// d.
func Objects() (*addonsv1.HelmOp, []*addonsv1.HelmOpRelease, []*unstructured.Unstructured) {
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}}
	helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
	helmOp.Spec.Rollout = &addonsv1.Rollout{Waves: []addonsv1.Wave{{Name: "first",
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"stage": "one"}}}}}
	helmOp.Status.Conditions = []metav1.Condition{Condition("Ready=False/ReleasesFailed")}
	helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: 7}
	helmOp.Status.Failures = []addonsv1.ClusterFailure{{Cluster: "c", Reason: "TemplateFailed", Message: "no key"},
		{Cluster: "a", Reason: "TemplateFailed", Message: "no key in a"}}
	var releases []*addonsv1.HelmOpRelease
	for i, ref := range []addonsv1.ClusterReference{{Name: "a"}, {Name: "b", Namespace: "ns2"},
		apiutil.ClusterRefOf("ns", clusterlink.Management)} {
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("r", i),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(helmOp,
				addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}}}
		release.Spec.ClusterRef = ref
		release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 6}
		release.Status.Conditions = []metav1.Condition{Condition("Ready=True/Ready")}
		releases = append(releases, release)
	}
	var clusters []*unstructured.Unstructured
	for _, name := range []string{"ns/a", "ns2/b", "ns/c", "ns/d"} {
		cluster := apiutil.NewCluster()
		namespace, name, _ := strings.Cut(name, "/")
		cluster.SetNamespace(namespace)
		cluster.SetName(name)
		cluster.SetLabels(map[string]string{"x": "y"})
		if name == "a" {
			cluster.SetLabels(map[string]string{"x": "y", "stage": "one"})
		}
		clusters = append(clusters, cluster)
	}
	return helmOp, releases, clusters
}
