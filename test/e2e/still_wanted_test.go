/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package e2e

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestStillWanted takes a HelmOpRelease away, or away from its HelmOp, while the release is still wanted: the record is
// mended and the release is not touched.
func TestStillWanted(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	child := one.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)

	s.step("a HelmOpRelease that is deleted by hand is made anew", func(s *scenario) {
		s.remove(child)
		s.Eventually(func(g gomega.Gomega) {
			current := &addonsv1.HelmOpRelease{}
			g.Expect(s.client.Get(s.Context(), client.ObjectKeyFromObject(child), current)).To(gomega.Succeed())
			g.Expect(current.UID).NotTo(gomega.Equal(child.UID))
			expectCondition(g, current, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason)
		}).Should(gomega.Succeed())
		one.in(s).expectUntouched()
		one.in(s).eventuallyRevisions(releaseNamespace, "hello", "1 deployed")
	})
	s.step("a HelmOpRelease without owner and labels is taken back", func(s *scenario) {
		s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(child), child))
		update(s, child, func(r *addonsv1.HelmOpRelease) { r.OwnerReferences, r.Labels = nil, nil })
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(map[string]any{"greeting": "still here"}) })
		one.in(s).eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
		one.in(s).eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 deployed")
	})
}
