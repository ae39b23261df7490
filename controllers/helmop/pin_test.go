// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop_test

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestPin pins one of two Clusters to an earlier HelmOp revision, and ends the pin.
func TestPin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	f.cluster("one")
	f.cluster("two")
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) {
		s.ValuesTemplate = colored
		s.RevisionHistoryLimit = ptr.To[int32](1)
	})
	f.completes(helmOp, 1, "one", "two")
	const broken = `{{ if eq .Cluster.metadata.name "two" }}{{ .No }}{{ end }}`
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate += "\nmore: true" })
	f.completes(helmOp, 2, "one", "two")

	f.pin("two", "1")
	f.hasPinned(helmOp, "two", 1, 1)
	f.Expect(f.releases()["two"].Spec.Rollout.Reason).To(gomega.Equal(addonsv1.ReleaseRolloutPinned))
	f.Expect(conditions.Get(helmOp, addonsv1.ReadyCondition)).To(gomega.And(
		gomega.HaveField("Status", metav1.ConditionTrue),
		gomega.HaveField("Message", "1 Cluster is up to date; 1 Cluster is pinned to a HelmOp revision")))

	// Later HelmOp revisions do not reach the pinned Cluster, even if they cannot be rendered for it. The pinned
	// revision is kept although the history is full. Changes of the Cluster itself are applied under the pinned
	// revision.
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate += "\nfault: " + broken })
	f.completes(helmOp, 3, "one")
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate = colored + "\nlast: true" })
	f.completes(helmOp, 4, "one")
	before := f.releases()["two"]
	f.color("two", "blue")
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(f.releases()["two"].Spec.ValuesDigest).NotTo(gomega.Equal(before.Spec.ValuesDigest))
	})
	f.hasPinned(helmOp, "two", 1, 1)

	// A pin that cannot be carried out changes nothing. The status has the cause.
	for value, why := range map[string]string{
		"99": "there is no HelmOp revision 99", "newest": `its value "newest" is not the number of a HelmOp revision`,
		"3": "HelmOp revision 3 cannot be rendered for this Cluster any more",
	} {
		f.pin("two", value)
		f.eventually(helmOp, func(g gomega.Gomega) {
			g.Expect(helmOp.Status.Failures).To(gomega.ConsistOf(gomega.And(
				gomega.HaveField("Cluster", "two"), gomega.HaveField("Reason", addonsv1.PinRefusedReason),
				gomega.HaveField("Message", gomega.And(gomega.ContainSubstring(why),
					gomega.ContainSubstring("the release stays at HelmOp revision 1"))))))
			g.Expect(conditions.IsTrue(helmOp, addonsv1.StalledCondition)).To(gomega.BeTrue())
		})
		f.Expect(f.releases()["two"].Spec.Rollout.Revision).To(gomega.BeEquivalentTo(1))
	}

	f.unpin("two")
	f.completes(helmOp, 4, "one", "two")
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Clusters).To(gomega.And(gomega.HaveField("UpToDate", gomega.BeEquivalentTo(2)),
			gomega.HaveField("Pinned", gomega.BeZero())))
		g.Expect(helmOp.Status.Failures).To(gomega.BeEmpty())
	})
}

// TestPinNeedsGoodOrApprovedRevision requires approvals. A release may be pinned only to a HelmOp revision that was
// good or approved.
func TestPinNeedsGoodOrApprovedRevision(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	f.cluster("one")
	f.cluster("two")
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) {
		s.ValuesTemplate = colored
		s.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
	})
	f.approve(helmOp, 1, f.waitsForApproval(helmOp, 1, 2))
	f.completes(helmOp, 1, "one", "two")
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate += "\nnever: true" })
	f.waitsForApproval(helmOp, 2, 2)
	f.pin("two", "2")
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Failures).To(gomega.ConsistOf(gomega.HaveField("Message", gomega.ContainSubstring(
			"HelmOp revision 2 was not rolled out completely and is not approved for this release"))))
	})
	f.Expect(f.releases()["two"].Spec.Rollout.Revision).To(gomega.BeEquivalentTo(1))

	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate = colored + "\nthird: true" })
	f.unpin("two")
	f.approve(helmOp, 3, f.waitsForApproval(helmOp, 3, 2))
	f.completes(helmOp, 3, "one", "two")
	f.pin("two", "1")
	f.hasPinned(helmOp, "two", 1, 1)
}

// pin pins the release in a Cluster.
func (f *fixture) pin(cluster, value string) {
	f.Helper()
	f.annotate(cluster, func(annotations map[string]string) { annotations[addonsv1.PinnedRevisionAnnotation] = value })
}

// unpin ends the pin of the release in a Cluster.
func (f *fixture) unpin(cluster string) {
	f.Helper()
	f.annotate(cluster, func(annotations map[string]string) { delete(annotations, addonsv1.PinnedRevisionAnnotation) })
}

// annotate changes the annotations of the release in a Cluster.
func (f *fixture) annotate(cluster string, change func(map[string]string)) {
	f.Helper()
	release := f.releases()[cluster]
	before := release.DeepCopy()
	if release.Annotations == nil {
		release.Annotations = map[string]string{}
	}
	change(release.Annotations)
	f.must(f.Patch(f.Context(), release, client.MergeFrom(before)))
}

// hasPinned sets a pinned release Ready until the status of its HelmOp has the number of pinned Clusters.
func (f *fixture) hasPinned(helmOp *addonsv1.HelmOp, cluster string, revision int64, count int) {
	f.Helper()
	f.eventually(helmOp, func(g gomega.Gomega) {
		release := f.releases()[cluster]
		g.Expect(release.Spec.Rollout.Revision).To(gomega.Equal(revision))
		if ready := conditions.Get(release, addonsv1.ReadyCondition); ready.ObservedGeneration != release.Generation {
			f.ready(release)
		}
		g.Expect(helmOp.Status.Clusters.Pinned).To(gomega.BeEquivalentTo(count))
		g.Expect(conditions.IsTrue(helmOp, addonsv1.ReadyCondition)).To(gomega.BeTrue())
	})
}
