// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// greetingLabel on a Cluster is a part of the text of its release.
const greetingLabel = "greeting"

// killedWithApproval requires approvals. A version waits on all Clusters. Values change after the user has read the
// digest and before the approval. The manager is killed while the HelmOp revision waits, and again during the rollout.
func (t *rolloutClusters) killedWithApproval(s *scenario) {
	label := fmt.Sprintf(`{{ if hasKey .Cluster.metadata.labels %q }} {{ .Cluster.metadata.labels.%s }}{{ end }}`,
		greetingLabel, greetingLabel)
	q := t.newRolloutHelmOp(s, "approval", canaryFirst(atMost(2)), func(h *addonsv1.HelmOp) {
		h.Spec.Values = rawJSON(greeting("one" + label))
	})
	s.requireApproval(q.helmOp)
	q.eventually(ready(q.count), condition(addonsv1.ApprovedCondition, metav1.ConditionTrue, addonsv1.ApprovedReason))

	since := time.Now()
	q.greet("two" + label)
	outdated := q.awaitsApproval(2, q.count,
		condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.WaitingForApprovalReason),
		waitsFor("kubectl helmop approve approval", "rollout-approve=2/"))
	s.eventuallyEvent(q.helmOp, addonsv1.WaitingForApprovalEvent)
	q.approve(2, "0123456789abcdef0123456789abcdef")
	q.eventually(condition(addonsv1.ApprovedCondition, metav1.ConditionFalse, addonsv1.ApprovalRefusedReason))
	s.eventuallyEvent(q.helmOp, addonsv1.ApprovalRefusedEvent)

	// The values of a Cluster change before the approval.
	s.label("prod-5", greetingLabel, "there")
	digest := q.awaitsApproval(2, q.count, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Rollout.Approval.Digest).NotTo(gomega.Equal(outdated))
	})
	q.approve(2, outdated)
	q.eventually(condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ApprovalRefusedReason))
	s.replaceManager()
	q.untouched(since, q.in())
	q.approve(2, digest)
	q.eventuallyAssigned(2, 3)
	s.replaceManager()
	q.eventually(inPhase(2, addonsv1.RolloutPhaseComplete), ready(q.count), progress(12, 12, 0),
		condition(addonsv1.ApprovedCondition, metav1.ConditionTrue, addonsv1.ApprovedReason))
	s.eventuallyEvent(q.helmOp, addonsv1.RolloutApprovedEvent)
	q.eventuallyText("two there", []string{"prod-5"}, "1 superseded", "2 deployed")
	course := q.log.of(2, "canary")
	s.Expect(course.order).To(gomega.ConsistOf(q.in()))
	s.Expect(course.twice).To(gomega.BeEmpty(), "assigned twice")
	s.Expect(course.early).To(gomega.BeEmpty(), "assigned too early")

	// A change of one Cluster waits, and the others are not touched.
	since = time.Now()
	s.label("prod-5", greetingLabel, "again")
	digest = q.awaitsApproval(2, 1)
	q.untouched(since, q.in())
	s.approve(q.helmOp, digest)
	q.eventuallyText("two again", []string{"prod-5"}, "1 superseded", "2 superseded", "3 deployed")
	q.eventually(ready(q.count))

	// Without the requirement, nothing waits.
	s.label("prod-5", greetingLabel, "freely")
	q.awaitsApproval(2, 1)
	update(s, q.helmOp, func(h *addonsv1.HelmOp) { h.Spec.Rollout.Approval = "" })
	q.eventuallyText("two freely", []string{"prod-5"})
	q.eventually(ready(q.count))
}

// approve sets the annotation that approves a digest.
func (q *rolloutHelmOp) approve(revision int, digest string) {
	q.s.Helper()
	q.annotate(addonsv1.RolloutApproveAnnotation, fmt.Sprintf("%d/%s", revision, digest))
}

// awaitsApproval waits until a HelmOp revision waits for an approval that changes a number of Clusters, and returns the
// digest.
func (q *rolloutHelmOp) awaitsApproval(revision, clusters int, checks ...func(gomega.Gomega, *addonsv1.HelmOp)) string {
	q.s.Helper()
	return q.s.awaitsApproval(q.helmOp, revision, clusters, checks...)
}

// requireApproval requires approvals of a HelmOp from now on.
func (s *scenario) requireApproval(helmOp *addonsv1.HelmOp) {
	s.Helper()
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		if h.Spec.Rollout == nil {
			h.Spec.Rollout = &addonsv1.Rollout{}
		}
		h.Spec.Rollout.Approval = addonsv1.ApprovalPolicyRequired
	})
}

// approve approves a digest with the command, and waits until the manager has accepted the approval.
func (s *scenario) approve(helmOp *addonsv1.HelmOp, digest string) {
	s.Helper()
	s.answers("approve", helmOp.Name, "--digest", digest, "--wait", "--timeout", patience.String())
}

// awaitsApproval waits until a HelmOp revision waits for an approval that changes a number of Clusters, and returns the
// digest.
func (s *scenario) awaitsApproval(helmOp *addonsv1.HelmOp, revision, clusters int,
	checks ...func(gomega.Gomega, *addonsv1.HelmOp),
) string {
	s.Helper()
	checks = append(checks, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Rollout).NotTo(gomega.BeNil())
		g.Expect(h.Status.Rollout.Approval).To(gomega.And(
			gomega.HaveField("Approved", false), gomega.HaveField("Revision", gomega.BeEquivalentTo(revision)),
			gomega.HaveField("Waiting", gomega.BeEquivalentTo(clusters))))
	})
	return s.eventually(helmOp, checks...).Status.Rollout.Approval.Digest
}
