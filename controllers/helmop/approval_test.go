// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop_test

import (
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
)

// colored are values that depend on a label of the Cluster.
const colored = `color: "{{ if hasKey .Cluster.metadata.labels "color" }}{{ .Cluster.metadata.labels.color }}{{ end }}"`

// TestRevisionWaitsForApproval approves the first two HelmOp revisions, and then a change of one Cluster.
func TestRevisionWaitsForApproval(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	f.cluster("one")
	f.cluster("two")
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) {
		s.ValuesTemplate = colored
		s.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
	})

	// The first HelmOp revision is not installed anywhere. An outdated digest does not approve it.
	first := f.waitsForApproval(helmOp, 1, 2)
	f.Expect(f.releases()).To(gomega.BeEmpty())
	f.approve(helmOp, 1, "0123456789abcdef0123456789abcdef")
	f.eventually(helmOp, func(g gomega.Gomega) {
		for _, condition := range []string{addonsv1.ApprovedCondition, addonsv1.ReadyCondition} {
			g.Expect(conditions.Get(helmOp, condition)).To(gomega.And(
				gomega.HaveField("Status", metav1.ConditionFalse),
				gomega.HaveField("Reason", addonsv1.ApprovalRefusedReason),
				gomega.HaveField("Message", gomega.And(gomega.ContainSubstring("0123456789abcdef"),
					gomega.ContainSubstring(approval.Request(1, first))))))
		}
		g.Expect(conditions.GetReason(helmOp, addonsv1.RollingOutCondition)).To(
			gomega.Equal(addonsv1.ApprovalRefusedReason))
		g.Expect(conditions.Get(helmOp, addonsv1.StalledCondition)).To(gomega.BeNil())
	})
	f.Expect(f.releases()).To(gomega.BeEmpty())
	f.approve(helmOp, 1, first)
	f.completes(helmOp, 1, "one", "two")
	var hashes []string
	for cluster, release := range f.releases() {
		hash, err := approval.HashOfSpec(cluster, &release.Spec)
		f.must(err)
		hashes = append(hashes, hash)
	}
	f.Expect(f.revision(helmOp, 1).Status.Approval).To(gomega.And(gomega.HaveField("Digest", first),
		gomega.HaveField("Digest", approval.Digest(hashes)), gomega.HaveField("Releases", gomega.ConsistOf(hashes))))

	// The second HelmOp revision is not assigned to any Cluster. A Cluster changes before the approval, so the digest
	// changes.
	before := f.generations()
	f.registry.set(f.namespace, digestOf("b"))
	f.update(helmOp, func(h *addonsv1.HelmOp) {
		h.Annotations[addonsv1.ResolveRequestedAtAnnotation] = "second"
	})
	outdated := f.waitsForApproval(helmOp, 2, 2)
	f.color("two", "blue")
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Rollout.Approval.Digest).NotTo(gomega.Equal(outdated))
	})
	f.approve(helmOp, 2, outdated)
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(conditions.GetReason(helmOp, addonsv1.ApprovedCondition)).To(gomega.Equal(addonsv1.ApprovalRefusedReason))
	})
	f.Expect(f.generations()).To(gomega.Equal(before))
	second := helmOp.Status.Rollout.Approval.Digest
	f.approve(helmOp, 2, second)
	f.completes(helmOp, 2, "one", "two")
	for _, release := range f.releases() {
		f.Expect(release.Spec.Artifact.Digest).To(gomega.Equal(digestOf("b")))
	}

	// A change of one Cluster waits. The other Clusters do not change, and a new Cluster is installed at the same time.
	before = f.generations()
	f.color("two", "green")
	third := f.waitsForApproval(helmOp, 2, 1)
	f.cluster("three")
	f.Eventually(f.releases).Should(gomega.HaveLen(3))
	f.ready(f.releases()["three"])
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Rollout.Approval).To(gomega.HaveField("Waiting", gomega.BeEquivalentTo(1)))
		g.Expect(helmOp.Status.Rollout.Approval.Digest).NotTo(gomega.Equal(third))
		g.Expect(helmOp.Status.Clusters.UpToDate).To(gomega.BeEquivalentTo(2))
	})
	f.approve(helmOp, 2, helmOp.Status.Rollout.Approval.Digest)
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Rollout.Approval.Approved).To(gomega.BeTrue())
		g.Expect(f.generations()["two"]).To(gomega.BeNumerically(">", before["two"]))
	})
	f.Expect(f.generations()["one"]).To(gomega.Equal(before["one"]))
}

// TestApprovalAfterTheFact requires approvals for a HelmOp that is already rolled out. Later it no longer requires
// them.
func TestApprovalAfterTheFact(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	f.cluster("one")
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) { s.ValuesTemplate = colored })
	f.completes(helmOp, 1, "one")
	f.update(helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
	})
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(conditions.IsTrue(helmOp, addonsv1.ApprovedCondition)).To(gomega.BeTrue())
		g.Expect(conditions.IsTrue(helmOp, addonsv1.ReadyCondition)).To(gomega.BeTrue())
	})
	before := f.generations()
	f.color("one", "red")
	f.waitsForApproval(helmOp, 1, 1)
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate += "\nmore: true" })
	f.waitsForApproval(helmOp, 2, 1)

	// An abort needs no approval, because it gives up the waiting HelmOp revision. The change of the Cluster still
	// waits.
	f.update(helmOp, func(h *addonsv1.HelmOp) {
		h.Annotations = map[string]string{addonsv1.RolloutAbortAnnotation: "2"}
	})
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Rollout).To(gomega.HaveField("Phase", addonsv1.RolloutPhaseAborted))
		g.Expect(helmOp.Status.Rollout.Approval).To(gomega.HaveField("Revision", gomega.BeEquivalentTo(1)))
	})
	f.Expect(f.generations()).To(gomega.Equal(before))

	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate += "\nyetMore: true" })
	f.waitsForApproval(helmOp, 3, 1)
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.Rollout.Approval = addonsv1.ApprovalPolicyNone })
	f.completes(helmOp, 3, "one")
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(conditions.Get(helmOp, addonsv1.ApprovedCondition)).To(gomega.BeNil())
		g.Expect(helmOp.Status.Rollout.Approval).To(gomega.BeNil())
	})
}

// waitsForApproval waits until a HelmOp revision needs an approval that changes a number of Clusters. It returns the
// digest.
func (f *fixture) waitsForApproval(helmOp *addonsv1.HelmOp, revision int64, waiting int) string {
	f.Helper()
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Rollout).NotTo(gomega.BeNil())
		g.Expect(helmOp.Status.Rollout.Approval).To(gomega.And(
			gomega.HaveField("Approved", false), gomega.HaveField("Revision", gomega.Equal(revision)),
			gomega.HaveField("Waiting", gomega.BeEquivalentTo(waiting)), gomega.HaveField("Digest", gomega.HaveLen(32))))
		request := approval.Request(revision, helmOp.Status.Rollout.Approval.Digest)
		g.Expect(helmOp.Status.Rollout.WaitingFor).To(gomega.ContainSubstring("rollout-approve=" + request))
		g.Expect(conditions.GetReason(helmOp, addonsv1.ReadyCondition)).To(
			gomega.Equal(addonsv1.WaitingForApprovalReason))
	})
	return helmOp.Status.Rollout.Approval.Digest
}

func (f *fixture) approve(helmOp *addonsv1.HelmOp, revision int64, digest string) {
	f.Helper()
	f.update(helmOp, func(h *addonsv1.HelmOp) {
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		h.Annotations[addonsv1.RolloutApproveAnnotation] = approval.Request(revision, digest)
	})
}

// completes sets the releases of a HelmOp revision Ready until the revision is rolled out to these Clusters.
func (f *fixture) completes(helmOp *addonsv1.HelmOp, revision int64, clusters ...string) {
	f.Helper()
	f.eventually(helmOp, func(g gomega.Gomega) {
		releases := f.releases()
		for _, cluster := range clusters {
			release := releases[cluster]
			g.Expect(release).To(gomega.HaveField("Spec.Rollout.Revision", gomega.Equal(revision)))
			if ready := conditions.Get(release, addonsv1.ReadyCondition); ready == nil ||
				ready.ObservedGeneration != release.Generation {
				f.ready(release)
			}
		}
		g.Expect(helmOp.Status.Rollout).To(gomega.And(gomega.HaveField("Phase", addonsv1.RolloutPhaseComplete),
			gomega.HaveField("Revision", gomega.Equal(revision))))
	})
}

// generations returns the generation of each release, by Cluster.
func (f *fixture) generations() map[string]int64 {
	f.Helper()
	generations := map[string]int64{}
	for cluster, release := range f.releases() {
		generations[cluster] = release.Generation
	}
	return generations
}

func (f *fixture) revision(helmOp *addonsv1.HelmOp, number int64) *addonsv1.HelmOpRevision {
	f.Helper()
	revision := &addonsv1.HelmOpRevision{}
	f.must(f.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: fmt.Sprint(helmOp.Name, "-", number)},
		revision))
	return revision
}

// color sets the label of a Cluster that the values contain.
func (f *fixture) color(name, color string) {
	f.Helper()
	cluster := &clusterv1.Cluster{}
	f.must(f.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, cluster))
	before := cluster.DeepCopy()
	cluster.Labels["color"] = color
	f.must(f.Patch(f.Context(), cluster, client.MergeFrom(before)))
}
