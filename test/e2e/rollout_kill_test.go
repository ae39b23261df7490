// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestRolloutContinuesAfterManagerIsKilled kills the manager at several points of a rollout. Order, limits and budget
// are kept, and no release is upgraded twice.
func TestRolloutContinuesAfterManagerIsKilled(t *testing.T) {
	s, fleet := ownRollouts(t)
	s.step("in waves", func(s *scenario) { fleet.killedInWaves(s) })
	s.step("with failures", func(s *scenario) { fleet.killedWithFailures(s) })
	s.step("with an approval", func(s *scenario) { fleet.killedWithApproval(s) })
}

// eventuallyAssigned waits until a revision is assigned to at least n Clusters.
func (q *rolloutHelmOp) eventuallyAssigned(revision int64, n int) {
	q.s.Helper()
	q.s.Eventually(func(g gomega.Gomega) {
		g.Expect(len(q.log.of(revision).order)).To(gomega.BeNumerically(">=", n), "Clusters with the revision")
	}).WithPolling(poll / 10).Should(gomega.Succeed())
}

func (t *rolloutClusters) killedInWaves(s *scenario) {
	q := t.newRolloutHelmOp(s, "waves", &addonsv1.Rollout{Waves: []addonsv1.Wave{wave("canary"), wave("early")}},
		func(h *addonsv1.HelmOp) {
			atMost(2)(h.Spec.Rollout)
			h.Spec.Rollout.MinReadySeconds = 1
		})
	q.greet("two")
	for _, assigned := range []int{1, 2, 3, 5, 8, 11} {
		q.eventuallyAssigned(2, assigned)
		s.replaceManager()
	}
	q.eventually(inPhase(2, addonsv1.RolloutPhaseComplete), ready(q.count), progress(12, 12, 0))
	course := q.log.of(2, "canary", "early")
	s.Expect(course.order).To(gomega.ConsistOf(q.in()))
	s.Expect(course.twice).To(gomega.BeEmpty(), "assigned twice")
	s.Expect(course.early).To(gomega.BeEmpty(), "assigned too early")
	s.Expect(course.most).To(gomega.BeNumerically("<=", 2), "in progress at the same time")
	q.eventuallyText("two", q.in(), "1 superseded", "2 deployed")
	q.revisionsAre("1 Complete", "2 Complete")
}

func (t *rolloutClusters) killedWithFailures(s *scenario) {
	q := t.newRolloutHelmOp(s, "failures", canaryFirst(func(r *addonsv1.Rollout) {
		atMost(1)(r)
		r.OnFailure = addonsv1.RolloutFailureActionRollback
	}))
	since := time.Now()
	q.greet("bad")
	q.eventuallyAssigned(2, 1)
	s.replaceManager()
	q.eventually(inPhase(2, addonsv1.RolloutPhaseRolledBack))
	s.replaceManager()
	q.eventuallyText("one", q.in())
	q.untouched(since, q.in("early", "prod"))
	q.eventually(inPhase(2, addonsv1.RolloutPhaseRolledBack),
		condition(addonsv1.RollingOutCondition, metav1.ConditionFalse, addonsv1.RolloutRolledBackReason))
	s.Expect(q.log.assigned(2)).To(gomega.HaveLen(1), "Clusters with the revision")
	q.revisionsAre("1 Complete", "2 RolledBack")
}
