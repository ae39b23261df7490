// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

func gatingHelmOp(name, conditionType string) addonsv1.HelmOp {
	helmOp := addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{}}}
	helmOp.Spec.ClusterCondition = conditionType
	return helmOp
}

func gatingRelease(namespace, helmOp string, status metav1.ConditionStatus, reason string) addonsv1.HelmOpRelease {
	controller := true
	release := addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: helmOp + "-c",
		OwnerReferences: []metav1.OwnerReference{{Kind: apiutil.HelmOpKind, Name: helmOp, Controller: &controller}}}}
	release.Spec.ClusterCondition = "HelmOpReady"
	if status != "" {
		conditions.Set(&release, metav1.Condition{Type: addonsv1.ReadyCondition, Status: status, Reason: reason})
	}
	return release
}

func TestClusterConditions(t *testing.T) {
	t.Parallel()
	notSelecting := gatingHelmOp("not-selecting", "HelmOpReady")
	notSelecting.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"not": "this"}}
	deleting := gatingHelmOp("deleting", "HelmOpReady")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	readyOf := func(namespace, helmOp string) addonsv1.HelmOpRelease {
		return gatingRelease(namespace, helmOp, metav1.ConditionTrue, "Ready")
	}
	tests := map[string]struct {
		helmOps  []addonsv1.HelmOp
		releases []addonsv1.HelmOpRelease
		want     string // type=status, comma separated
		message  string
	}{
		"no HelmOp requests a condition": {helmOps: []addonsv1.HelmOp{gatingHelmOp("a", "")},
			releases: []addonsv1.HelmOpRelease{readyOf("ns", "a")}},
		"no release yet": {helmOps: []addonsv1.HelmOp{gatingHelmOp("a", "HelmOpReady")},
			want: "HelmOpReady=False", message: "HelmOp a: no release yet"},
		"release without the condition Ready": {helmOps: []addonsv1.HelmOp{gatingHelmOp("a", "HelmOpReady")},
			releases: []addonsv1.HelmOpRelease{gatingRelease("ns", "a", "", "")}, want: "HelmOpReady=False",
			message: "HelmOp a: Progressing"},
		"ready": {helmOps: []addonsv1.HelmOp{gatingHelmOp("a", "HelmOpReady")},
			releases: []addonsv1.HelmOpRelease{readyOf("ns", "a")}, want: "HelmOpReady=True"},
		"one of two ready": {helmOps: []addonsv1.HelmOp{gatingHelmOp("a", "HelmOpReady"),
			gatingHelmOp("b", "HelmOpReady")},
			releases: []addonsv1.HelmOpRelease{readyOf("ns", "a"), gatingRelease("ns", "b", metav1.ConditionFalse, "Unhealthy")},
			want:     "HelmOpReady=False", message: "HelmOp b: Unhealthy"},
		"two types": {helmOps: []addonsv1.HelmOp{gatingHelmOp("a", "HelmOpReady"),
			gatingHelmOp("b", "CNIReady")}, releases: []addonsv1.HelmOpRelease{readyOf("ns", "b")},
			want: "CNIReady=True,HelmOpReady=False"},
		"not selecting or under deletion": {helmOps: []addonsv1.HelmOp{notSelecting, deleting}},
		"release of another namespace":    {releases: []addonsv1.HelmOpRelease{readyOf("other", "a")}},
		"HelmOp with the name of one in another namespace": {helmOps: []addonsv1.HelmOp{gatingHelmOp("a", "HelmOpReady")},
			releases: []addonsv1.HelmOpRelease{readyOf("other", "a")}, want: "HelmOpReady=False",
			message: "HelmOp a: no release yet"},
		"type in the HelmOp, not in the release": {helmOps: []addonsv1.HelmOp{gatingHelmOp("a", "CNIReady")},
			releases: []addonsv1.HelmOpRelease{readyOf("ns", "a")}, want: "CNIReady=True"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
			var got, messages []string
			for _, c := range clusterConditions(cluster, tc.helmOps, tc.releases) {
				got, messages = append(got, c.Type+"="+string(c.Status)), append(messages, c.Message)
			}
			if strings.Join(got, ",") != tc.want || !strings.Contains(strings.Join(messages, " "), tc.message) {
				t.Errorf("got %v: %v", got, messages)
			}
		})
	}
}

func TestClusterConditionsAreBounded(t *testing.T) {
	t.Parallel()
	var helmOps []addonsv1.HelmOp
	for i := range 100 {
		helmOps = append(helmOps, gatingHelmOp("a"+strconv.Itoa(i), "T"+strconv.Itoa(i)+"Ready"),
			gatingHelmOp("b"+strconv.Itoa(i), "AllReady"))
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	got := clusterConditions(cluster, helmOps, nil)
	if len(got) != maxClusterConditions {
		t.Errorf("%d conditions", len(got))
	}
	if message := got[0].Message; !strings.Contains(message, "100 of 100") ||
		strings.Count(message, "HelmOp b") != maxNamedReleases {
		t.Errorf("message %q", message)
	}
}

func TestChangedConditions(t *testing.T) {
	t.Parallel()
	before := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	now := metav1.NewTime(before.Add(time.Hour))
	of := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: "HelmOpReady", Status: status, Reason: reason, Message: message,
			LastTransitionTime: before}
	}
	known := of(metav1.ConditionFalse, addonsv1.ReleasesNotReadyReason, "a")
	foreign := metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "Available",
		LastTransitionTime: before}
	tests := map[string]struct {
		known, desired []metav1.Condition
		changed        bool
		transition     metav1.Time
	}{
		"no conditions": {known: []metav1.Condition{foreign}},
		"first condition": {known: []metav1.Condition{foreign}, desired: []metav1.Condition{known},
			changed: true, transition: now},
		"unchanged": {known: []metav1.Condition{foreign, known}, desired: []metav1.Condition{known},
			transition: before},
		"another message": {known: []metav1.Condition{known},
			desired: []metav1.Condition{of(metav1.ConditionFalse, addonsv1.ReleasesNotReadyReason, "b")}, changed: true,
			transition: before},
		"another status": {known: []metav1.Condition{known},
			desired: []metav1.Condition{of(metav1.ConditionTrue, addonsv1.ReleasesReadyReason, "b")}, changed: true,
			transition: now},
		"condition no longer requested": {known: []metav1.Condition{foreign, known}, changed: true},
		"condition changed by another program": {known: []metav1.Condition{of(metav1.ConditionFalse, "Mine", "a")},
			desired: []metav1.Condition{known}, changed: true, transition: before},
	}
	for name, tc := range tests {
		cluster := &clusterv1.Cluster{}
		cluster.Status.Conditions = tc.known
		got, changed := changedConditions(cluster, tc.desired, now)
		if changed != tc.changed || len(got) > 0 && !got[0].LastTransitionTime.Equal(&tc.transition) {
			t.Errorf("%s: changed %t, %v", name, changed, got)
		}
	}
}

// TestUpgradeCondition checks the condition with the results of the checks of releases for an upgrade of Kubernetes.
func TestUpgradeCondition(t *testing.T) {
	t.Parallel()
	checked := func(helmOp, version string, status metav1.ConditionStatus, reason string) addonsv1.HelmOpRelease {
		release := gatingRelease("ns", helmOp, metav1.ConditionTrue, "Ready")
		if version != "" {
			release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: version}
			conditions.Set(&release, metav1.Condition{Type: addonsv1.KubernetesUpgradeReadyCondition, Status: status,
				Reason: reason})
		}
		return release
	}
	removed := checked("a", "v1.37", metav1.ConditionFalse, addonsv1.APIRemovedReason)
	ready := checked("b", "v1.37", metav1.ConditionTrue, addonsv1.KubernetesUpgradeReadyReason)
	stale := checked("c", "v1.36", metav1.ConditionTrue, addonsv1.KubernetesUpgradeReadyReason)
	older := checked("g", "v1.37", metav1.ConditionTrue, addonsv1.KubernetesUpgradeReadyReason)
	older.Generation++
	moving := checked("s", "v1.37", metav1.ConditionTrue, addonsv1.KubernetesUpgradeReadyReason)
	conditions.Set(&moving, metav1.Condition{Type: addonsv1.ReadyCondition, Status: metav1.ConditionFalse,
		Reason: addonsv1.OtherShardReason})
	failed := checked("d", "v1.37", metav1.ConditionUnknown, addonsv1.UpgradeCheckFailedReason)
	for name, tc := range map[string]struct {
		releases     []addonsv1.HelmOpRelease
		isNotAsked   bool
		want, reason string
	}{
		"not requested": {releases: []addonsv1.HelmOpRelease{removed}, isNotAsked: true},
		"no releases":   {},
		"ready":         {releases: []addonsv1.HelmOpRelease{ready}, want: "1 release is ready for Kubernetes v1.37", reason: addonsv1.ReleasesReadyReason},
		"ready with an older spec": {releases: []addonsv1.HelmOpRelease{ready, older},
			want:   "1 of 2 releases is not checked for Kubernetes v1.37: HelmOp g: UpgradeCheckPending",
			reason: addonsv1.ReleasesNotCheckedReason},
		"of another shard": {releases: []addonsv1.HelmOpRelease{ready, moving},
			want:   "1 of 2 releases is not checked for Kubernetes v1.37: HelmOp s: OtherShard",
			reason: addonsv1.ReleasesNotCheckedReason},
		"one of all": {releases: []addonsv1.HelmOpRelease{removed, ready, stale, failed},
			want:   "1 of 4 releases is not ready for Kubernetes v1.37: HelmOp a: APIRemoved",
			reason: addonsv1.ReleasesNotReadyReason},
		"not checked": {releases: []addonsv1.HelmOpRelease{ready, stale, failed, checked("e", "", "", "")},
			want: "3 of 4 releases are not checked for Kubernetes v1.37: HelmOp c: UpgradeCheckPending; HelmOp d: " +
				"UpgradeCheckFailed; HelmOp e",
			reason: addonsv1.ReleasesNotCheckedReason},
	} {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		if !tc.isNotAsked {
			cluster.Annotations = map[string]string{addonsv1.CheckUpgradeAnnotation: "v1.37"}
		}
		got := clusterConditions(cluster, nil, tc.releases)
		if tc.want == "" {
			if len(got) != 0 {
				t.Errorf("%s: got %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Type != addonsv1.ClusterUpgradeReadyType || got[0].Reason != tc.reason ||
			!strings.HasPrefix(got[0].Message, tc.want) || !isOfHelmOp(got[0]) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
