// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// TestHeldReleases has a HelmOp that adopts the release of one Cluster and has a problem in another one.
func TestHeldReleases(t *testing.T) {
	released := func(reason string) metav1.Condition {
		return metav1.Condition{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionFalse, Reason: reason,
			Message: "message"}
	}
	yes := func(condition, reason string) metav1.Condition {
		return metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: "message"}
	}
	const timedOut, held = "timed out after 2s", "HelmOp does not continue before you change something"
	for name, test := range map[string]struct {
		child  []metav1.Condition // of the Cluster two; it has no HelmOpRelease if there are none.
		helmOp []metav1.Condition
		// failures are of the HelmOp, and revision is its newest HelmOp revision.
		failures []addonsv1.ClusterFailure
		revision int64
		paused   int32 // Clusters
		// isUnserved is true if no manager has read the HelmOp.
		isUnserved bool
		// problem is the text that the command prints at once. end is the reason why it ends.
		problem, end string
	}{
		"would change": {child: []metav1.Condition{released(addonsv1.AdoptionWouldChangeReason)}, revision: 1,
			problem: "calico: Cluster two: AdoptionWouldChange: message", end: held},
		"would change with an old HelmOp revision": {
			child: []metav1.Condition{released(addonsv1.AdoptionWouldChangeReason), {Type: addonsv1.ReadyCondition,
				Status: metav1.ConditionFalse, Reason: addonsv1.AdoptionWouldChangeReason}}, revision: 2,
			problem: "calico: Cluster two: AdoptionWouldChange: message", end: timedOut},
		"refused": {child: []metav1.Condition{released(addonsv1.ReleaseConflictReason)}, revision: 1,
			problem: "calico: Cluster two: ReleaseConflict: message", end: held},
		"stalled": {child: []metav1.Condition{released(addonsv1.UpgradeFailedReason),
			yes(addonsv1.StalledCondition, addonsv1.RetriesExhaustedReason)}, revision: 1,
			problem: "calico: Cluster two: UpgradeFailed: message", end: held},
		"failed, and tried again": {child: []metav1.Condition{released(addonsv1.UpgradeFailedReason), {
			Type: addonsv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: addonsv1.UpgradeFailedReason}}, revision: 1,
			problem: "calico: Cluster two: UpgradeFailed: message", end: timedOut},
		"paused": {child: []metav1.Condition{yes(addonsv1.PausedCondition, addonsv1.PausedReason)}, revision: 1,
			problem: "calico: Cluster two: Paused: message", end: timedOut},
		"not assigned":     {revision: 1, end: timedOut},
		"no manager":       {isUnserved: true, problem: "calico: " + whyUnserved, end: timedOut},
		"a paused Cluster": {revision: 1, paused: 1, problem: "calico: 1 Cluster is paused; resume it", end: timedOut},
		"not rendered": {revision: 1, failures: []addonsv1.ClusterFailure{{Cluster: "two",
			Reason: addonsv1.TemplateFailedReason, Message: "message"}},
			problem: "calico: Cluster two: TemplateFailed: message", end: timedOut},
		"another Cluster failed": {helmOp: []metav1.Condition{yes(addonsv1.StalledCondition, addonsv1.ReleasesFailedReason),
			{Type: addonsv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: addonsv1.ReleasesFailedReason,
				Message: "message"}}, problem: "calico: ReleasesFailed: message", end: timedOut},
		"the HelmOp waits for a user": {helmOp: []metav1.Condition{yes(addonsv1.StalledCondition, "RolloutPaused"), {
			Type: addonsv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "RolloutPaused", Message: "message"}},
			problem: "calico: RolloutPaused: message", end: held},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "flux", fluxPair)
				w.isIdle, w.isUnserved, w.timeout = true, test.isUnserved, time.Minute
				if test.end == timedOut {
					w.timeout = 2 * time.Second
				}
				item := &w.plan().Items[0]
				helmOp, err := w.begin(t.Context(), item)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.adopt(t.Context(), w.client, helmOp, "one"); err != nil {
					t.Fatal(err)
				}
				helmOp.Status.Conditions, helmOp.Status.Failures = test.helmOp, test.failures
				helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: test.revision}
				helmOp.Status.Clusters = &addonsv1.ClusterCounts{Paused: test.paused}
				if err := w.client.Update(t.Context(), helmOp); err != nil {
					t.Fatal(err)
				}
				if test.child != nil {
					if err := w.adopt(t.Context(), w.client, helmOp, "two"); err != nil {
						t.Fatal(err)
					}
					child := &addonsv1.HelmOpRelease{}
					key := client.ObjectKey{Namespace: "fleet", Name: apiutil.ChildName("calico", "two")}
					if err := w.client.Get(t.Context(), key, child); err != nil {
						t.Fatal(err)
					}
					child.Status.Conditions = test.child
					child.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1}
					if err := w.client.Update(t.Context(), child); err != nil {
						t.Fatal(err)
					}
				}
				err = w.finish(t.Context(), item, helmOp)
				if err == nil || !strings.Contains(err.Error(), "1 release is not adopted: "+test.end) {
					t.Errorf("error: %v", err)
				}
				notes := w.notes.String()
				if !strings.Contains(notes, "calico: waiting for the adoption of 1 release") ||
					strings.Count(notes, test.problem+"\n") != 1 && test.problem != "" {
					t.Errorf("printed: %s", notes)
				}
			})
		})
	}
}

// TestHeldReleaseDoesNotStopOthers has a release that HelmOp refuses, and another release that HelmOp adopts later.
func TestHeldReleaseDoesNotStopOthers(t *testing.T) {
	w := newWorld(t, "flux", fluxPair)
	w.isIdle = true
	item := &w.plan().Items[0]
	helmOp, err := w.begin(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: 1}
	if err := w.client.Update(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	a := &awaited{m: &w.migration, item: item, noted: map[string]bool{}}
	a.helmOps = map[client.ObjectKey]*addonsv1.HelmOp{client.ObjectKeyFromObject(helmOp): helmOp}
	children := map[string]*addonsv1.HelmOpRelease{}
	look := func() error {
		return a.look(func() {
			a.releases = map[client.ObjectKey]*addonsv1.HelmOpRelease{}
			for _, child := range children {
				a.releases[client.ObjectKeyFromObject(child)] = child
			}
		})
	}
	for _, cluster := range []string{"one", "two"} {
		if err := w.adopt(t.Context(), w.client, helmOp, cluster); err != nil {
			t.Fatal(err)
		}
		children[cluster] = &addonsv1.HelmOpRelease{}
		key := client.ObjectKey{Namespace: "fleet", Name: apiutil.ChildName("calico", cluster)}
		if err := w.client.Get(t.Context(), key, children[cluster]); err != nil {
			t.Fatal(err)
		}
		children[cluster].Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1}
	}
	conditions.Set(children["one"], metav1.Condition{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionFalse,
		Reason: addonsv1.AdoptionWouldChangeReason})
	conditions.Set(children["two"], metav1.Condition{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionFalse,
		Reason: addonsv1.UpdatingReason})
	if err := look(); err != nil {
		t.Errorf("the wait ends while HelmOp adopts another release: %v", err)
	}
	conditions.Set(children["two"], metav1.Condition{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionTrue})
	if err := look(); !errors.Is(err, errHeld) {
		t.Errorf("got %v", err)
	}
	w.heldDelay = time.Hour
	if err := look(); err != nil {
		t.Errorf("the wait ends before the status can be new: %v", err)
	}
	conditions.Set(children["one"], metav1.Condition{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionTrue})
	if err := look(); !errors.Is(err, errComplete) {
		t.Errorf("got %v", err)
	}
}

// TestReleaseVanishes has a HelmOpRelease that a user deletes when the wait has just ended.
func TestReleaseVanishes(t *testing.T) {
	w := newWorld(t, "caaph", caaphObjects)
	w.noteChanged(&w.plan().Items[0], nil)
	if w.notes.Len() > 0 {
		t.Errorf("printed: %s", w.notes.String())
	}
}

// TestProgress repeats a progress that does not change.
func TestProgress(t *testing.T) {
	w := newWorld(t, "caaph", caaphObjects)
	a := &awaited{m: &w.migration, item: &w.plan().Items[0], words: releaseWords{noun: "adoption"}, began: time.Now(),
		noted: map[string]bool{}, releases: map[client.ObjectKey]*addonsv1.HelmOpRelease{}}
	for _, since := range []time.Duration{0, 0, progressInterval} {
		a.printed = a.printed.Add(-since)
		if err := a.look(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	want := "calico: waiting for the adoption of 1 release\n" +
		"calico: waiting for the adoption of 1 release for 0s: Cluster one: HelmOp has not assigned the release yet\n"
	if got := w.notes.String(); got != want {
		t.Errorf("printed: %s", got)
	}
}
