// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestHoldEvents checks the Events about holds: each Cluster and each release has its Event, and the HelmOp has Events
// within a budget.
func TestHoldEvents(t *testing.T) {
	g := gomega.NewWithT(t)
	recorder := events.NewFakeRecorder(1000)
	r := &Reconciler{recorder: recorder,
		budgets: report.NewEventBudgets(func() time.Time { return time.Unix(1_800_000_000, 0) })}
	const releases = 100
	for i := range releases {
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("release-%d", i),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: addonsv1.GroupVersion.String(), Kind: apiutil.HelmOpKind, Name: "fleet", UID: "fleet",
				Controller: new(true),
			}}}}
		r.eventAt(&lifeScope{object: apiutil.NewCluster()}, release, corev1.EventTypeNormal, addonsv1.ClusterUpgradeHeldEvent,
			"Hold", "Held it")
	}
	g.Expect(recorder.Events).To(gomega.HaveLen(2*releases + report.EventBurst))
}

// TestLongEventsFit checks that the API server accepts the Events of a release with a long message: it refuses notes of
// more than 1024 bytes.
func TestLongEventsFit(t *testing.T) {
	recorder := events.NewFakeRecorder(3)
	r := &Reconciler{recorder: recorder, budgets: report.NewEventBudgets(time.Now)}
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hello-one",
		Labels: map[string]string{addonsv1.HelmOpNameLabel: "hello"}, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: addonsv1.GroupVersion.String(), Kind: apiutil.HelmOpKind, Name: "hello", UID: "hello",
			Controller: new(true),
		}}}}
	release.Spec.ClusterRef.Name = "one"
	r.eventAt(&lifeScope{object: apiutil.NewCluster()}, release, corev1.EventTypeWarning,
		addonsv1.ClusterUpgradeReleasedEvent, "HoldUpgrade", strings.Repeat("x", report.MaxConditionMessage))
	prefix := corev1.EventTypeWarning + " " + addonsv1.ClusterUpgradeReleasedEvent + " "
	for range 3 {
		event := <-recorder.Events
		note, ok := strings.CutPrefix(event, prefix)
		if !ok || len(note) > report.MaxEventMessage {
			t.Errorf("%d bytes: %s", len(note), event)
		}
	}
}
