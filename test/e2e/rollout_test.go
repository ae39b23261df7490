// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestRollout checks rollouts with twelve Clusters: the order, the limits, and the Clusters that are not touched.
func TestRollout(t *testing.T) {
	s, fleet := newRollouts(t)
	for name, do := range map[string]func(*rolloutClusters, *scenario, string){
		"canary-fails": (*rolloutClusters).canaryFails,
		"continues":    (*rolloutClusters).continues,
		"rolls-back":   (*rolloutClusters).rollsBack,
		"waves":        (*rolloutClusters).inWaves,
		"pauses":       (*rolloutClusters).pauses,
		"superseded":   (*rolloutClusters).superseded,
		"aborted":      (*rolloutClusters).aborted,
		"new-clusters": (*rolloutClusters).newClusters,
		"unreachable":  (*rolloutClusters).unreachable,
		"maintained":   (*rolloutClusters).maintained,
	} {
		s.part(name, func(s *scenario) { do(fleet, s, name) })
	}
}

// canaryFails has failing canaries. No other Cluster gets the revision.
func (t *rolloutClusters) canaryFails(s *scenario, name string) {
	q := t.newRolloutHelmOp(s, name, canaryFirst())
	since := time.Now()
	q.greet("bad")
	q.eventually(inPhase(2, addonsv1.RolloutPhasePaused),
		condition(addonsv1.RollingOutCondition, metav1.ConditionTrue, addonsv1.RolloutPausedReason),
		condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.RolloutPausedReason),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.Rollout.LastGoodRevision).To(gomega.BeEquivalentTo(1))
			g.Expect(h.Status.Rollout.Failed).To(gomega.BeNumerically(">=", 1))
			g.Expect(h.Status.Rollout.WaitingFor).NotTo(gomega.BeEmpty())
		})
	q.untouched(since, q.in("early", "prod"))
	q.eventuallyText("one", q.in("early", "prod"), "1 deployed")
	s.Expect(q.in("canary")).To(gomega.ContainElements(q.log.assigned(2)))
	s.eventuallyEvent(q.helmOp, addonsv1.RolloutPausedEvent)

	// The next revision is assigned to all Clusters.
	q.greet("three")
	q.eventually(inPhase(3, addonsv1.RolloutPhaseComplete), ready(q.count), progress(12, 12, 0))
	q.eventuallyText("three", q.in())
	q.eventuallyText("three", q.in("early", "prod"), "1 superseded", "2 deployed")
}

// continues has one failing canary, and continues on request.
func (t *rolloutClusters) continues(s *scenario, name string) {
	q := t.newRolloutHelmOp(s, name, canaryFirst())
	since := time.Now()
	q.greet(`{{ if eq .Cluster.metadata.name "canary-0" }}bad{{ else }}two{{ end }}`)
	q.eventually(inPhase(2, addonsv1.RolloutPhasePaused))
	q.untouched(since, q.in("early", "prod"))
	q.annotate(addonsv1.RolloutContinueAnnotation, "1")
	q.untouched(since, q.in("early", "prod"))
	q.annotate(addonsv1.RolloutContinueAnnotation, "2")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseComplete), failure("canary-0", addonsv1.HealthFailedReason),
		condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason))
	q.eventuallyText("two", append(q.in("early", "prod"), "canary-1"), "1 superseded", "2 deployed")
	s.eventuallyEvent(q.helmOp, addonsv1.RolloutContinuedEvent)
}

// rollsBack has a canary that fails with new values from a Secret. The canary returns to its previous values.
func (t *rolloutClusters) rollsBack(s *scenario, name string) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	set := func(text string) { secret.StringData = map[string]string{"values.yaml": "greeting: " + text + "\n"} }
	set("first secret")
	s.create(secret)
	q := t.newRolloutHelmOp(s, name, canaryFirst(func(r *addonsv1.Rollout) {
		r.OnFailure = addonsv1.RolloutFailureActionRollback
		atMost(1)(r)
	}), func(h *addonsv1.HelmOp) {
		h.Spec.Values = nil
		h.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: name}}
	})
	since := time.Now()
	update(s, secret, func(*corev1.Secret) { set("bad secret") })
	rolledBack := []func(gomega.Gomega, *addonsv1.HelmOp){
		inPhase(2, addonsv1.RolloutPhaseRolledBack),
		condition(addonsv1.RollingOutCondition, metav1.ConditionFalse, addonsv1.RolloutRolledBackReason),
	}
	q.eventually(rolledBack...)
	failed := q.log.assigned(2)
	s.Expect(failed).To(gomega.HaveLen(1), "Clusters with the revision")
	s.Expect(q.in("canary")).To(gomega.ContainElements(failed))
	q.eventuallyText("first secret", failed, "1 superseded", "2 superseded", "3 deployed")
	var others []string
	for _, cluster := range q.in() {
		if cluster != failed[0] {
			others = append(others, cluster)
		}
	}
	q.untouched(since, others)
	child := s.child(q.helmOp, failed[0],
		childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	s.Expect(child.Spec.Rollout.Reason).To(gomega.Equal(addonsv1.ReleaseRolloutReturned))
	s.Expect(child.Spec.Rollout.Revision).To(gomega.BeEquivalentTo(1))
	q.eventually(rolledBack...)
	s.eventuallyEvent(q.helmOp, addonsv1.RolloutRolledBackEvent)

	update(s, secret, func(*corev1.Secret) { set("third secret") })
	q.eventually(inPhase(3, addonsv1.RolloutPhaseComplete), ready(q.count))
	q.eventuallyText("third secret", q.in())
}

// inWaves has two waves and remaining Clusters, with limits and a manual promotion.
func (t *rolloutClusters) inWaves(s *scenario, name string) {
	q := t.newRolloutHelmOp(s, name, &addonsv1.Rollout{Waves: []addonsv1.Wave{wave("canary"), wave("early")}},
		func(h *addonsv1.HelmOp) {
			manually(h.Spec.Rollout)
			atMost(2)(h.Spec.Rollout)
			h.Spec.Rollout.MinReadySeconds = 1
		})
	since := time.Now()
	q.greet("two")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseProgressing), progress(2, 2, 0), waitsFor("promot", "2/canary"))
	q.untouched(since, q.in("early", "prod"))
	// The annotation promotes another revision.
	q.annotate(addonsv1.RolloutPromoteAnnotation, "1/canary")
	q.untouched(since, q.in("early", "prod"))
	q.annotate(addonsv1.RolloutPromoteAnnotation, "2/canary")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseComplete), ready(q.count), progress(12, 12, 0))
	course := q.log.of(2, "canary", "early")
	s.Expect(course.order).To(gomega.ConsistOf(q.in()))
	s.Expect(course.twice).To(gomega.BeEmpty(), "assigned twice")
	s.Expect(course.early).To(gomega.BeEmpty(), "assigned too early")
	s.Expect(course.most).To(gomega.BeNumerically("<=", 2), "in progress at the same time")
	q.eventuallyText("two", q.in(), "1 superseded", "2 deployed")
}

// pauses sets spec.rollout.paused, changes the values meanwhile, and resumes the rollout.
func (t *rolloutClusters) pauses(s *scenario, name string) {
	q := t.newRolloutHelmOp(s, name, &addonsv1.Rollout{})
	pause := func(paused bool) { update(s, q.helmOp, func(h *addonsv1.HelmOp) { h.Spec.Rollout.Paused = paused }) }
	pause(true)
	since := time.Now()
	q.greet("two")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseProgressing), progress(0, 0, 0),
		condition(addonsv1.RollingOutCondition, metav1.ConditionTrue, addonsv1.RolloutPausedReason))
	q.untouched(since, q.in())
	q.greet("three")
	q.eventually(inPhase(3, addonsv1.RolloutPhaseProgressing), progress(0, 0, 0))
	pause(false)
	q.eventually(inPhase(3, addonsv1.RolloutPhaseComplete), ready(q.count))
	q.eventuallyText("three", q.in(), "1 superseded", "2 deployed")
	s.Expect(q.log.assigned(2)).To(gomega.BeEmpty())
}

// superseded changes the values in mid-rollout. No further Cluster gets the superseded revision.
func (t *rolloutClusters) superseded(s *scenario, name string) {
	q := t.newRolloutHelmOp(s, name, canaryFirst(manually))
	q.greet("two")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseProgressing), progress(2, 2, 0))
	q.greet("three")
	q.eventually(inPhase(3, addonsv1.RolloutPhaseProgressing), progress(2, 2, 0), waitsFor("3/canary"))
	q.annotate(addonsv1.RolloutPromoteAnnotation, "3/canary")
	q.eventually(inPhase(3, addonsv1.RolloutPhaseComplete), ready(q.count))
	q.eventuallyText("three", q.in("canary"), "1 superseded", "2 superseded", "3 deployed")
	q.eventuallyText("three", q.in("early", "prod"), "1 superseded", "2 deployed")
	s.Expect(q.log.assigned(2)).To(gomega.ConsistOf(q.in("canary")))
	q.revisionsAre("1 Complete", "2 Superseded", "3 Complete")
}

// revisionsAre waits until the HelmOpRevisions are exactly the wanted ones. Each wanted revision has the form "<number>
// <phase>".
func (q *rolloutHelmOp) revisionsAre(want ...string) {
	q.s.Helper()
	q.s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		list := &addonsv1.HelmOpRevisionList{}
		g.Expect(q.s.client.List(ctx, list, client.InNamespace(q.s.namespace))).To(gomega.Succeed())
		var got []string
		for i := range list.Items {
			revision := &list.Items[i]
			if metav1.IsControlledBy(revision, q.helmOp) {
				got = append(got, toJSON(revision.Spec.Number)+" "+string(revision.Status.Phase))
			}
		}
		g.Expect(got).To(gomega.ConsistOf(want))
	}).WithContext(q.s.Context()).Should(gomega.Succeed())
}

// aborted aborts a healthy rollout.
func (t *rolloutClusters) aborted(s *scenario, name string) {
	q := t.newRolloutHelmOp(s, name, canaryFirst(manually))
	since := time.Now()
	q.greet("two")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseProgressing), progress(2, 2, 0))
	q.annotate(addonsv1.RolloutAbortAnnotation, "2")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseAborted),
		condition(addonsv1.RollingOutCondition, metav1.ConditionFalse, addonsv1.RolloutAbortedReason))
	q.eventuallyText("one", q.in("canary"), "1 superseded", "2 superseded", "3 deployed")
	q.untouched(since, q.in("early", "prod"))
	q.greet("three")
	q.eventually(inPhase(3, addonsv1.RolloutPhaseProgressing), waitsFor("3/canary"))
	q.annotate(addonsv1.RolloutPromoteAnnotation, "3/canary")
	q.eventually(inPhase(3, addonsv1.RolloutPhaseComplete), ready(q.count))
	q.eventuallyText("three", q.in())
}

// newClusters creates Clusters while a rollout waits. Each gets the current revision of its wave at once.
func (t *rolloutClusters) newClusters(s *scenario, name string) {
	q := t.newRolloutHelmOp(s, name, canaryFirst(manually))
	q.greet("two")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseProgressing), progress(2, 2, 0))
	for cluster, text := range map[string]string{"new-canary": "two", "new-prod": "one"} {
		s.createCluster(testbed.ClusterOptions{
			Name: cluster, Host: "host-0", Labels: map[string]string{poolLabel: name, tierLabel: cluster[len("new-"):]},
		})
		w := s.workload(cluster)
		w.eventuallyHello(q.namespace(cluster), name, map[string]string{"greeting": text})
		child := s.child(q.helmOp, cluster,
			childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
		s.Expect(child.Spec.Rollout.Reason).To(gomega.Equal(addonsv1.ReleaseRolloutJoined), cluster)
	}
	q.annotate(addonsv1.RolloutPromoteAnnotation, "2/canary")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseComplete), ready(q.count+2))
	w := s.workload("new-prod")
	w.eventuallyRevisions(q.namespace("new-prod"), name, "1 superseded", "2 deployed")
	s.workload("new-canary").eventuallyRevisions(q.namespace("new-canary"), name, "1 deployed")
}

// unreachable has a Cluster that does not answer. It delays no other Cluster, and is upgraded later.
func (t *rolloutClusters) unreachable(s *scenario, name string) {
	s.createCluster(testbed.ClusterOptions{Name: "lonely",
		Labels: map[string]string{poolLabel: name, tierLabel: "canary"}})
	w := s.workload("lonely")
	own := &rolloutClusters{hosts: map[string]*workload{"lonely": w}, clusters: append([]string{"lonely"}, t.clusters...)}
	for cluster, host := range t.hosts {
		own.hosts[cluster] = host
	}
	q := own.newRolloutHelmOp(s, name, canaryFirst(atMost(2)))
	s.must(w.server.StopAPIServer(s.Context()))
	q.greet("two")
	q.eventuallyText("two", t.clusters, "1 superseded", "2 deployed")
	s.child(q.helmOp, "lonely", unreachable)
	q.eventually(condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.WaitingForClustersReason))

	s.must(w.server.StartAPIServer(s.Context()))
	q.eventually(inPhase(2, addonsv1.RolloutPhaseComplete), ready(q.count))
	q.eventuallyText("two", []string{"lonely"}, "1 superseded", "2 deployed")
}
