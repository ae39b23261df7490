// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// A fleet's releases have an Event each, its HelmOp has a few of them.
func TestEventsOfAFleet(t *testing.T) {
	g := gomega.NewWithT(t)
	recorder := events.NewFakeRecorder(1000)
	r := &Reconciler{recorder: recorder,
		budgets: report.NewEventBudgets(func() time.Time { return time.Unix(1_800_000_000, 0) })}
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{UID: "fleet", Name: "fleet"}}
	const releases = 100
	for i := range releases {
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("release-%d", i)}}
		r.event(&releaseScope{release: release, helmOp: helmOp}, corev1.EventTypeNormal, "Installed", "Install",
			"Installed it")
	}
	g.Expect(recorder.Events).To(gomega.HaveLen(releases + report.EventBurst))
}
