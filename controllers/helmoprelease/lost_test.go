// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease_test

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

// TestLostReleaseIsNotTakenBackWithoutStatus has two HelmOps with takeOwnership for one release. The status of the one
// that lost the release is emptied, as in a move or a restore. HelmOp takes the release back only on request.
func TestLostReleaseIsNotTakenBackWithoutStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	artifact := f.artifact("1.0.0", helmtest.TwoConfigMaps())
	takes := func(r *addonsv1.HelmOpRelease) {
		r.Name, r.Spec.Install = f.helmOp.Name+"-one", &addonsv1.InstallOptions{TakeOwnership: new(true)}
		r.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "before"}
	}
	first, loser := f.helmOp, f.release(artifact, takes)
	f.ready(loser, 1)
	f.helmOp = first.DeepCopy()
	f.helmOp.ObjectMeta = metav1.ObjectMeta{Namespace: f.namespace, Name: "next"}
	f.helmOp.Spec.ValuesTemplate = "cidr: second"
	f.must(f.Create(t.Context(), f.helmOp))
	winner := f.release(artifact, takes)
	f.ready(winner, 2)

	isLost := func(g gomega.Gomega) {
		condition := conditions.Get(loser, addonsv1.ReleasedCondition)
		g.Expect(condition).To(gomega.HaveField("Reason", addonsv1.ReleaseConflictReason))
		g.Expect(condition.Message).To(gomega.ContainSubstring("%q has taken over", f.namespace+".next"))
		g.Expect(loser.Annotations).To(gomega.HaveKeyWithValue(addonsv1.LostToAnnotation, f.namespace+".next"))
	}
	f.eventually(loser, isLost)
	loser.Status = addonsv1.HelmOpReleaseStatus{}
	f.must(f.Status().Update(t.Context(), loser))
	f.eventually(loser, isLost)
	version := loser.ResourceVersion
	f.Expect(f.configMaps()).To(gomega.HaveKeyWithValue("cni-value", "second"))
	f.Expect(f.records()).To(gomega.Equal(2))

	// A pass over the lost release writes nothing.
	patch(f, winner, func() {
		metav1.SetMetaDataAnnotation(&winner.ObjectMeta, addonsv1.RetryRequestedAtAnnotation, "nothing to do")
	})
	f.eventually(winner, func(g gomega.Gomega) {
		g.Expect(winner.Status.LastRetryRequest).To(gomega.Equal("nothing to do"))
	})
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(loser), loser))
	f.Expect(loser.ResourceVersion).To(gomega.Equal(version))

	// Without takeOwnership, a retry has no effect, also not when the HelmOp gets takeOwnership later.
	request := func(value string, takes bool) {
		patch(f, loser, func() {
			loser.Annotations[addonsv1.RetryRequestedAtAnnotation] = value
			loser.Spec.Install.TakeOwnership = new(takes)
		})
	}
	request("no right", false)
	f.eventually(loser, func(g gomega.Gomega) {
		g.Expect(loser.Status.LastRetryRequest).To(gomega.Equal("no right"))
		g.Expect(conditions.GetMessage(loser, addonsv1.ReleasedCondition)).To(gomega.And(
			gomega.ContainSubstring("set install.takeOwnership"), gomega.ContainSubstring("request a retry after that")))
		g.Expect(loser.Annotations).To(gomega.HaveKeyWithValue(addonsv1.LostToAnnotation, f.namespace+".next"))
	})
	request("no right", true)
	f.eventually(loser, isLost)
	f.Expect(f.configMaps()).To(gomega.HaveKeyWithValue("cni-value", "second"))

	request("take it back", true)
	f.ready(loser, 3)
	f.Expect(loser.Annotations).NotTo(gomega.HaveKey(addonsv1.LostToAnnotation))
	f.Expect(f.configMaps()).To(gomega.HaveKeyWithValue("cni-value", "first"))
	f.eventually(winner, func(g gomega.Gomega) {
		g.Expect(winner.Annotations).To(gomega.HaveKeyWithValue(addonsv1.LostToAnnotation, f.namespace+".cni"))
	})
}

// TestKubeconfigOfAnotherCluster has two Clusters whose kubeconfigs lead to the same API server, because a user copied
// the wrong Secret. The release of the first Cluster must not change, also if the second HelmOpRelease is deleted.
func TestKubeconfigOfAnotherCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.release(f.artifact("1.0.0", helmtest.TwoConfigMaps()), nil)
	f.ready(first, 1)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "two"}}
	cluster.Spec.Paused = new(false)
	f.must(f.Create(t.Context(), cluster))
	cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	f.must(f.Status().Update(t.Context(), cluster))
	for _, name := range []string{"one", "two"} {
		f.must(f.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name + "-kubeconfig"},
			StringData: map[string]string{"value": "{clusters: [{name: c, cluster: {server: https://one}}], contexts: " +
				"[{name: x, context: {cluster: c}}], current-context: x}"}}))
	}
	newer := f.artifact("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	inSecond := func(r *addonsv1.HelmOpRelease) {
		r.Name, r.Labels[clusterv1.ClusterNameLabel], r.Spec.ClusterRef.Name = "cni-two", "two", "two"
	}
	second := f.release(newer, inSecond)
	f.eventually(second, func(g gomega.Gomega) {
		condition := conditions.Get(second, addonsv1.ReadyCondition)
		g.Expect(condition).To(gomega.HaveField("Reason", addonsv1.ReleaseConflictReason))
		g.Expect(condition.Message).To(gomega.ContainSubstring("two-kubeconfig or one-kubeconfig"))
	})
	f.must(f.Delete(t.Context(), second))
	f.gone(second)
	f.Expect(f.records()).To(gomega.Equal(1))
	f.Expect(f.configMaps()).To(gomega.Equal(map[string]string{"cni-value": "first", "first": "1"}))

	// If the first HelmOpRelease no longer exists, the second takes over the release.
	patch(f, first, func() {
		metav1.SetMetaDataAnnotation(&first.ObjectMeta, addonsv1.OrphanAnnotation, "true")
	})
	f.must(f.Delete(t.Context(), first))
	f.gone(first)
	f.ready(f.release(newer, inSecond), 2)
}
