// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop_test

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestOrphanAfterForeground deletes a HelmOp with the propagation policy Foreground, and deletes the releases like
// garbage collection does. Then it deletes the HelmOp again, with the propagation policy Orphan. The API server must
// replace the finalizer, and all releases that are not uninstalled must be orphaned.
func TestOrphanAfterForeground(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	for _, name := range []string{"one", "two", "three"} {
		f.cluster(name)
	}
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) {
		s.Rollout = &addonsv1.Rollout{MaxUnavailable: new(intstr.FromInt32(1))}
	})
	f.eventually(helmOp, func(g gomega.Gomega) { g.Expect(f.releases()).To(gomega.HaveLen(3)) })

	f.must(f.Delete(t.Context(), helmOp, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	for _, release := range f.releases() {
		f.must(f.Delete(t.Context(), release))
	}
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(helmOp), helmOp))
	f.Expect(helmOp.Finalizers).To(gomega.ContainElement(metav1.FinalizerDeleteDependents))

	f.must(f.Delete(t.Context(), helmOp, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(helmOp), helmOp))
	f.Expect(helmOp.Finalizers).To(gomega.ConsistOf(addonsv1.HelmOpFinalizer, metav1.FinalizerOrphanDependents))
	f.Eventually(func(g gomega.Gomega) {
		for _, release := range f.releases() {
			g.Expect(release.Annotations).To(gomega.HaveKeyWithValue(addonsv1.OrphanAnnotation, "true"))
		}
	}).Should(gomega.Succeed())
	f.Expect(f.releases()).To(gomega.HaveLen(3))
}
