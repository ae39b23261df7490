// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	var memory Memory
	if _, ok := memory.Waited(SpanPull); ok {
		t.Error("waited without a wait")
	}
	memory.Wait(SpanPull, controllertest.Noon)
	memory.Wait(SpanPull, controllertest.Noon.Add(time.Hour))
	memory.Wait(SpanWaitForSlot, controllertest.Noon.Add(time.Minute))
	if since, ok := memory.Waited(SpanPull); !ok || since != controllertest.Noon {
		t.Errorf("waited since %s, %v", since, ok)
	}
	if _, ok := memory.Waited(SpanPull); ok {
		t.Error("the wait has ended already")
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	assigned, deployed := controllertest.Noon, controllertest.Noon.Add(10*time.Second)
	began, ended := controllertest.Noon.Add(time.Minute), controllertest.Noon.Add(61*time.Second)
	release := func(ready bool, health *addonsv1.HealthStatus) *addonsv1.HelmOpRelease {
		r := releaseWith("a", 7)
		r.Spec.Rollout.At = metav1.NewTime(assigned)
		r.Status.ObservedGeneration, r.Status.Health = r.Generation, health
		if !ready {
			report.SetNotReady(r, addonsv1.UpdatingReason, "")
		}
		return r
	}
	health := func(healthy, failed bool) *addonsv1.HealthStatus {
		return &addonsv1.HealthStatus{Revision: 1, Since: metav1.NewTime(deployed), WasHealthy: healthy, Failed: failed}
	}
	failed := release(false, health(false, true))
	report.SetCondition(failed, addonsv1.HealthyCondition, report.False, addonsv1.HealthTimeoutReason, "")
	newGeneration := release(true, health(true, false))
	newGeneration.Status.ObservedGeneration--
	wait := Span{Name: SpanWaitForHealth, Began: deployed, Ended: ended}
	waitFailed := wait
	waitFailed.Failure = addonsv1.HealthTimeoutReason
	root := Span{Name: SpanRevision, Began: assigned, Ended: ended}
	for name, tc := range map[string]struct {
		before, after *addonsv1.HelmOpRelease
		traced        int64
		health, root  *Span
	}{
		"waits":                     {before: release(false, health(false, false)), after: release(false, health(false, false))},
		"becomes healthy":           {before: release(false, health(false, false)), after: release(true, health(true, false)), health: &wait, root: &root},
		"waits for tests":           {before: release(false, health(false, false)), after: release(false, health(true, false)), health: &wait},
		"fails":                     {before: release(false, health(false, false)), after: failed, health: &waitFailed},
		"has failed":                {before: failed, after: failed},
		"becomes Ready again":       {before: release(false, health(true, false)), after: release(true, health(true, false))},
		"has no health":             {before: release(false, nil), after: release(true, nil), root: &root},
		"has its root":              {before: release(false, nil), after: release(true, nil), traced: 7},
		"stays Ready":               {before: release(true, health(true, false)), after: release(true, health(true, false))},
		"needs no action":           {before: newGeneration, after: release(true, health(true, false)), root: &Span{Name: SpanRevision, Began: began, Ended: ended}},
		"has another Helm revision": {before: release(false, &addonsv1.HealthStatus{Revision: 0, WasHealthy: true}), after: release(true, health(true, false)), health: &wait, root: &root},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			span, ok := healthSpan(tc.before, tc.after, ended)
			if ok != (tc.health != nil) || ok && span != *tc.health {
				t.Errorf("health: got %+v, %v, want %+v", span, ok, tc.health)
			}
			span, ok = rootSpan(tc.before, tc.after, tc.traced, began, ended)
			if ok != (tc.root != nil) || ok && span != *tc.root {
				t.Errorf("root: got %+v, %v, want %+v", span, ok, tc.root)
			}
		})
	}
}
