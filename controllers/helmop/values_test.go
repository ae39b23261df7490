// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop_test

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// secret creates a Secret with values, with or without the label of clusterctl move.
func (f *fixture) secret(name, values string, isMoved bool) *corev1.Secret {
	f.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Data:       map[string][]byte{"values.yaml": []byte(values)},
	}
	if isMoved {
		secret.Labels = map[string]string{"clusterctl.cluster.x-k8s.io/move": ""}
	}
	f.must(f.Create(f.Context(), secret))
	return secret
}

// valuesDigests returns the digests of the values of the releases, by Cluster.
func (f *fixture) valuesDigests() map[string]string {
	f.Helper()
	digests := map[string]string{}
	for cluster, release := range f.releases() {
		digests[cluster] = release.Spec.ValuesDigest
	}
	return digests
}

// TestSecretsOfClusters has a Secret for each Cluster. A missing Secret must affect only its Cluster until the Secret
// is created. A change of a Secret must change one release, and must not create a HelmOp revision.
func TestSecretsOfClusters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	for _, name := range []string{"one", "two"} {
		f.cluster(name)
	}
	secret := f.secret("one-cloud", "password: a", true)
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) {
		s.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "{{ .Cluster.metadata.name }}-cloud"}}
	})
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(f.releases()).To(gomega.And(gomega.HaveLen(1), gomega.HaveKey("one")))
		g.Expect(helmOp.Status.Failures).To(gomega.ConsistOf(addonsv1.ClusterFailure{
			Cluster: "two", Reason: addonsv1.ReferenceNotFoundReason,
			Message: `spec.valuesFrom[0] for Cluster "two": Secret ` + f.namespace +
				"/two-cloud: not found; create it or correct the reference",
		}))
	})

	f.secret("two-cloud", "password: a", false)
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(f.releases()).To(gomega.HaveLen(2))
		g.Expect(helmOp.Status.Failures).To(gomega.BeEmpty())
		g.Expect(conditions.GetMessage(helmOp, addonsv1.MovableCondition)).To(gomega.HaveSuffix(
			"kubectl -n " + f.namespace + " label secret/two-cloud clusterctl.cluster.x-k8s.io/move="))
	})
	for _, release := range f.releases() {
		f.ready(release)
	}
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Rollout).To(gomega.HaveField("Phase", addonsv1.RolloutPhaseComplete))
	})

	before := f.valuesDigests()
	f.Expect(before["one"]).To(gomega.Equal(before["two"]))
	patch := client.MergeFrom(secret.DeepCopy())
	secret.Data["values.yaml"] = []byte("password: b")
	f.must(f.Patch(t.Context(), secret, patch))
	f.Eventually(func(g gomega.Gomega) {
		after := f.valuesDigests()
		g.Expect(after["one"]).NotTo(gomega.Equal(before["one"]))
		g.Expect(after["two"]).To(gomega.Equal(before["two"]))
	}).Should(gomega.Succeed())
	for cluster, release := range f.releases() {
		f.Expect(release.Spec.Rollout.Revision).To(gomega.BeEquivalentTo(1), "of %s", cluster)
	}

	// The release keeps the values of a deleted Secret.
	f.must(f.Delete(t.Context(), secret))
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Failures).To(gomega.HaveLen(1))
		g.Expect(helmOp.Status.Failures[0].Message).To(gomega.ContainSubstring("one-cloud"))
	})
	f.Expect(f.releases()).To(gomega.HaveLen(2))
	revisions := &addonsv1.HelmOpRevisionList{}
	f.must(f.List(t.Context(), revisions, client.InNamespace(f.namespace)))
	f.Expect(revisions.Items).To(gomega.HaveLen(1))
}

// TestSecretOfOverride has a Secret with a fixed name in an override. If the Secret is missing, only the Clusters of
// the override are affected. The content of the Secret is a part of the HelmOp revision.
func TestSecretOfOverride(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	for _, name := range []string{"one", "two"} {
		f.cluster(name)
	}
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) {
		s.Overrides = []addonsv1.Override{{
			Name: "two", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"special": "yes"}},
			ValuesFrom: []addonsv1.ValuesReference{{Kind: "Secret", Name: "special", TargetPath: "cloud.password"}},
		}}
	})
	f.eventually(helmOp, func(g gomega.Gomega) { g.Expect(f.releases()).To(gomega.HaveLen(2)) })
	before := f.valuesDigests()
	cluster := &metav1.PartialObjectMetadata{}
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	cluster.Namespace, cluster.Name = f.namespace, "two"
	f.must(f.Patch(t.Context(), cluster,
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"special":"yes"}}}`))))
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Failures).To(gomega.HaveLen(1))
		g.Expect(helmOp.Status.Failures[0]).To(gomega.And(gomega.HaveField("Cluster", "two"),
			gomega.HaveField("Reason", addonsv1.ReferenceNotFoundReason),
			gomega.HaveField("Message", "spec.overrides[0] (two).valuesFrom[0]: Secret "+f.namespace+
				"/special: not found; create it or correct the reference")))
	})
	f.Expect(f.valuesDigests()).To(gomega.Equal(before))
	f.secret("special", "s3cret", true)
	f.Eventually(func(g gomega.Gomega) {
		after := f.valuesDigests()
		g.Expect(after["two"]).NotTo(gomega.Equal(before["two"]))
		g.Expect(after["one"]).To(gomega.Equal(before["one"]))
		for _, release := range f.releases() {
			g.Expect(release.Spec.Rollout.Revision).To(gomega.BeEquivalentTo(2))
		}
	}).Should(gomega.Succeed())
}
