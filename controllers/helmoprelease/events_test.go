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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestEventsOfFleetAreLimited checks that each release has its Event, and that the number of Events on the HelmOp is
// limited.
func TestEventsOfFleetAreLimited(t *testing.T) {
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

// TestRecordsLeftEventIsRecordedHourly checks that a HelmOp gets one Event about undeleted records per hour,
// independent of the number of its releases: an API server keeps an Event for an hour.
func TestRecordsLeftEventIsRecordedHourly(t *testing.T) {
	t.Parallel()
	recorder, now := events.NewFakeRecorder(10), time.Unix(1_800_000_000, 0)
	r := &Reconciler{recorder: recorder, now: func() time.Time { return now }}
	record := func(uid, release string, left int) {
		r.reportRecordsLeft(t.Context(), &releaseScope{
			release: &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: release}},
			helmOp:  &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}},
		}, helmclient.Result{RecordsLeft: left, RecordsLeftReason: "405"})
	}
	record("a", "one", 0)
	if len(recorder.Events) != 0 {
		t.Error("an Event without records")
	}
	for minute := range 3 * 60 {
		record("a", "one", 1)
		record("a", "two", 3)
		if minute < 60 {
			record("b", "one", 1)
		}
		now = now.Add(time.Minute)
	}
	if got := len(recorder.Events); got != 4 {
		t.Errorf("%d Events", got)
	}
}
