// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

func TestLastTries(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	key := types.NamespacedName{Namespace: "default", Name: "one"}
	before := &addonsv1.HelmOpRelease{}
	failed := before.DeepCopy()
	failed.Status.Failures, failed.Status.LastAttemptedAt = 1, metav1.NewTime(now)
	again := failed.DeepCopy()
	again.Status.History = []addonsv1.ReleaseAction{{Revision: 3}}

	anew := before.DeepCopy()
	anew.UID = "another"

	var tries lastTries
	if tries.isStale(key, lastTryOf(before), now) {
		t.Error("stale, though nothing was written")
	}
	tries.written(key, lastTryOf(failed), now)
	for name, c := range map[string]struct {
		read  *addonsv1.HelmOpRelease
		after time.Duration
		want  bool
	}{
		"as before":               {before, 0, true},
		"as written":              {failed, 0, false},
		"made anew":               {anew, 0, false},
		"written by another":      {again, time.Second, true},
		"written by another, old": {again, requeue.StaleLimit, false},
	} {
		if got := tries.isStale(key, lastTryOf(c.read), now.Add(c.after)); got != c.want {
			t.Errorf("%s: stale %t, want %t", name, got, c.want)
		}
	}
	healthy := failed.DeepCopy()
	healthy.Status.Health = &addonsv1.HealthStatus{Revision: 3, Deployed: true, WasHealthy: true}
	tries.written(key, lastTryOf(healthy), now)
	progressing := healthy.DeepCopy()
	progressing.Status.Health.WasHealthy = false
	if tries.isStale(key, lastTryOf(healthy), now) || !tries.isStale(key, lastTryOf(progressing), now) {
		t.Error("what was healthy must not be judged as if it had never been")
	}
	missing := healthy.DeepCopy()
	report.SetNotReady(missing, addonsv1.ObjectsMissingReason, "an object does not exist")
	tries.written(key, lastTryOf(missing), now)
	if !tries.isStale(key, lastTryOf(healthy), now) {
		t.Error("a status from before a condition changed must not be what the next one is compared with")
	}
	tries.forget(key)
	if tries.isStale(key, lastTryOf(before), now) {
		t.Error("stale, though forgotten")
	}
}
