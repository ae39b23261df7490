// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"testing"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// refuseStatus makes the API server refuse the status of HelmOps of the scenario whose names begin with "unwritable",
// until the HelmOps are deleted or allowStatus is called.
func (s *scenario) refuseStatus() {
	s.Helper()
	s.Cleanup(func() {
		if err := s.allowStatus(context.Background()); err != nil {
			s.Error(err)
		}
	})
	name := metav1.ObjectMeta{Name: s.namespace}
	s.create(&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Update},
						Rule: admissionv1.Rule{APIGroups: []string{addonsv1.GroupVersion.Group},
							APIVersions: []string{"*"}, Resources: []string{"helmops/status"}},
					}}}},
			Validations: []admissionv1.Validation{{
				Expression: "!object.metadata.name.startsWith('unwritable') || has(object.metadata.deletionTimestamp)"}},
		}})
	s.create(&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name.Name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}})
}

// allowStatus removes the policy of refuseStatus.
func (s *scenario) allowStatus(ctx context.Context) error {
	name := metav1.ObjectMeta{Name: s.namespace}
	return errors.Join(
		client.IgnoreNotFound(s.client.Delete(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name})),
		client.IgnoreNotFound(s.client.Delete(ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name})))
}

// TestRefusedStatus has an admission policy that refuses the status of a HelmOp, as a policy of an administrator may
// do. HelmOp repeats its pass, and counts the repetitions in one Event. Without the policy, the status becomes current.
func TestRefusedStatus(t *testing.T) {
	s := newScenario(t)
	helmOp := s.newHelmOp("unwritable", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(0))
	s.refuseStatus()
	// The API server applies a new policy after a moment.
	s.Eventually(func(ctx context.Context) error {
		current := &addonsv1.HelmOp{}
		s.must(s.client.Get(ctx, client.ObjectKeyFromObject(helmOp), current))
		return s.client.Status().Update(ctx, current, client.DryRunAll)
	}).WithContext(s.Context()).Should(gomega.MatchError(gomega.ContainSubstring("ValidatingAdmissionPolicy")))
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "9.9.9" })
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		list := &eventsv1.EventList{}
		g.Expect(s.client.List(ctx, list, client.InNamespace(s.namespace))).To(gomega.Succeed())
		var repeated []eventsv1.Event
		for i := range list.Items {
			event := &list.Items[i]
			if event.Reason == addonsv1.ArtifactNotFoundReason && event.Action == "Resolve" {
				repeated = append(repeated, *event)
			}
		}
		g.Expect(repeated).To(gomega.HaveLen(1))
		g.Expect(repeated[0].Regarding.UID).To(gomega.Equal(helmOp.UID))
		g.Expect(repeated[0].Series).NotTo(gomega.BeNil(), "the Event is not repeated")
	}).WithContext(s.Context()).Should(gomega.Succeed())

	s.must(s.allowStatus(s.Context()))
	s.eventually(helmOp, condition(addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.ArtifactNotFoundReason))
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "1.0.0" })
	s.eventually(helmOp, ready(0))
}
