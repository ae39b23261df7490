// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestInvalidInputs sets fields of a HelmOp to values that no schema can refuse. The condition names the error, the
// release stays, and the condition recovers after a correction.
func TestInvalidInputs(t *testing.T) {
	s := newScenario(t)
	w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	parts := map[string]func(*scenario){}
	for name, input := range invalidInputs() {
		parts[name] = func(s *scenario) { w.in(s).takeInvalid(name, input) }
	}
	parts["values-from"] = func(s *scenario) { w.in(s).missValues() }
	s.each(parts)
}

// invalidInput breaks the spec of a HelmOp, and has the expected condition, reason and message.
type invalidInput struct {
	breaks    func(*addonsv1.HelmOpSpec)
	condition string
	reason    string
	texts     []string
}

func invalidInputs() map[string]invalidInput {
	selector := func(operator metav1.LabelSelectorOperator, values ...string) func(*addonsv1.HelmOpSpec) {
		return func(spec *addonsv1.HelmOpSpec) {
			spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: "zone", Operator: operator, Values: values,
			}}}
		}
	}
	return map[string]invalidInput{
		"selector-operator": {
			breaks: selector("Like", "a*"), condition: addonsv1.ReadyCondition, reason: addonsv1.InvalidSelectorReason,
			texts: []string{"spec.clusterSelector", "Like"},
		},
		"selector-values": {
			breaks: selector(metav1.LabelSelectorOpIn), condition: addonsv1.ReadyCondition,
			reason: addonsv1.InvalidSelectorReason,
			texts:  []string{"spec.clusterSelector"},
		},
		"semver": {
			breaks:    func(spec *addonsv1.HelmOpSpec) { spec.Source.Ref = addonsv1.ArtifactReference{Semver: ">>1"} },
			condition: addonsv1.ResolvedCondition, reason: addonsv1.InvalidReferenceReason, texts: []string{">>1"},
		},
		"template-syntax": {
			breaks:    func(spec *addonsv1.HelmOpSpec) { spec.ValuesTemplate = "a: b\ngreeting: {{ .Cluster.metadata.name\n" },
			condition: addonsv1.ReadyCondition, reason: addonsv1.TemplateFailedReason,
			texts: []string{"spec.valuesTemplate line"},
		},
		"values-leaf": {
			breaks:    func(spec *addonsv1.HelmOpSpec) { spec.Values = helloValues(greeting("{{ nope }}")) },
			condition: addonsv1.ReadyCondition, reason: addonsv1.TemplateFailedReason, texts: []string{"greeting", "nope"},
		},
		"schema": {
			breaks:    func(spec *addonsv1.HelmOpSpec) { spec.Values = helloValues(map[string]any{"podCIDR": "s3cret"}) },
			condition: addonsv1.ReadyCondition, reason: addonsv1.ReleasesFailedReason,
			texts: []string{"one", addonsv1.ValuesInvalidReason, "podCIDR"},
		},
		"release-name": {
			breaks:    func(spec *addonsv1.HelmOpSpec) { spec.Release.Name = "Not_A_Name" },
			condition: addonsv1.ReadyCondition, reason: addonsv1.ReleasesFailedReason,
			texts: []string{"one", addonsv1.TemplateFailedReason, "release.name"},
		},
	}
}

// takeInvalid breaks a HelmOp that has a healthy release, and corrects it.
func (w *workload) takeInvalid(name string, input invalidInput) {
	s := w.scenario
	helmOp := s.newHelmOp(name, forAll)
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, name, 1)

	good := helmOp.Spec.DeepCopy()
	update(s, helmOp, func(h *addonsv1.HelmOp) { input.breaks(&h.Spec) })
	broken := s.eventually(helmOp,
		condition(input.condition, metav1.ConditionFalse, input.reason), message(input.condition, input.texts...))
	s.Expect(toJSON(broken.Status)).NotTo(gomega.ContainSubstring("s3cret"), "a value must not be in the status")
	s.eventuallyEvent(helmOp, input.reason)
	w.eventuallyRevisions(releaseNamespace, name, "1 deployed")

	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec = *good.DeepCopy()
		h.Spec.Values = helloValues(greeting("corrected"))
	})
	w.eventuallyReleased(helmOp, releaseNamespace, name, 2)
	w.eventuallyHello(releaseNamespace, name, map[string]string{"greeting": "corrected"})
	w.eventuallyRevisions(releaseNamespace, name, "1 superseded", "2 deployed")
	s.eventually(helmOp, ready(1))
}

// missValues reads values from an object. First the object does not exist, then it lacks the key, and then its content
// is not YAML.
func (w *workload) missValues() {
	s, name := w.scenario, "values-from"
	helmOp := s.newHelmOp(name, forAll, func(h *addonsv1.HelmOp) {
		h.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "more"}}
	})
	s.create(helmOp)
	missing := condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReferenceNotFoundReason)
	s.eventually(helmOp, missing, message(addonsv1.ReadyCondition, "spec.valuesFrom[0]", "more"))
	s.eventuallyEvent(helmOp, addonsv1.ReferenceNotFoundReason)

	secret := s.secret("more")
	secret.StringData = map[string]string{"other.yaml": "{}"}
	s.create(secret)
	s.eventually(helmOp, missing, message(addonsv1.ReadyCondition, "values.yaml"))
	update(s, secret,
		func(secret *corev1.Secret) { secret.StringData = map[string]string{"values.yaml": "token: {s3cret"} })
	broken := s.eventually(helmOp,
		condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.TemplateFailedReason))
	s.Expect(toJSON(broken.Status)).NotTo(gomega.ContainSubstring("s3cret"), "a value must not be in the status")
	update(s, secret, func(secret *corev1.Secret) {
		secret.StringData = map[string]string{"values.yaml": "greeting: of a Secret"}
	})
	w.eventuallyReleased(helmOp, releaseNamespace, name, 1)
	w.eventuallyHello(releaseNamespace, name, map[string]string{"greeting": "of a Secret"})
}

// TestRejectedObject installs a chart with an object that API servers reject. Each try creates a revision, so tries
// become rarer. A change of the desired state is tried at once.
func TestRejectedObject(t *testing.T) {
	s := newScenario(t)
	r := s.ownRegistry()
	s.push(r, "charts/note", "1.0.0")
	w := s.clusters(testbed.ClusterOptions{Name: "one"})[0]
	helmOp := s.noteFrom(r, "note", "charts/note", addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Values = rawJSON(map[string]any{"name": "Not_A_Name"})
	s.create(helmOp)

	failed := func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(child.Status.Failures).To(gomega.BeNumerically(">=", 1))
		reason := addonsv1.UpgradeFailedReason
		if child.Status.Failures == 1 {
			reason = addonsv1.InstallFailedReason
		}
		expectCondition(g, child, addonsv1.ReleasedCondition, metav1.ConditionFalse, reason)
		g.Expect(child.Status.LastError).To(gomega.ContainSubstring("Not_A_Name"))
		g.Expect(child.Status.History).To(gomega.HaveLen(int(child.Status.Failures)))
	}
	// The first failure is the newest only for the ten seconds until the second try. Its Event and its action stay.
	s.eventuallyEvent(s.child(helmOp, "one", failed), addonsv1.InstallFailedReason)
	s.eventually(helmOp, failureOf("one", []string{addonsv1.InstallFailedReason, addonsv1.UpgradeFailedReason},
		"Not_A_Name"))
	// HelmOp goes on trying, so a full machine may see more failures.
	history := s.child(helmOp, "one", failed, func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(child.Status.Failures).To(gomega.BeNumerically(">=", 2))
	}).Status.History
	first, second := history[len(history)-1], history[len(history)-2]
	s.Expect([]string{first.Action, second.Action}).To(gomega.Equal([]string{"Install", "Upgrade"}))
	s.Expect(second.Time.Sub(first.Time.Time)).To(gomega.BeNumerically(">=", 10*time.Second),
		"between the first two tries")
	revisions, err := w.revisions(s.Context(), releaseNamespace, "note")
	s.must(err)
	s.Expect(len(revisions)).To(gomega.BeNumerically(">=", 2))
	s.Expect(summaries(revisions)[:2]).To(gomega.Equal([]string{"1 failed", "2 failed"}))

	s.setValues(helmOp, map[string]any{"name": "a-name", "greeting": strings.Repeat("hello ", 3)})
	var corrected int
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		revisions, err := w.revisions(ctx, releaseNamespace, "note")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		corrected = len(revisions)
		want := make([]string, 0, corrected)
		for number := 1; number < corrected; number++ {
			want = append(want, fmt.Sprintf("%d failed", number))
		}
		g.Expect(summaries(revisions)).To(gomega.Equal(append(want, fmt.Sprintf("%d deployed", corrected))))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.Expect(corrected).To(gomega.BeNumerically(">=", 3), "the first revision after the failed ones")
	w.eventuallyReleased(helmOp, releaseNamespace, "note", corrected)
	s.eventually(helmOp, ready(1))
	child := s.child(helmOp, "one")
	s.Expect(child.Status.Failures).To(gomega.BeZero())
	s.Expect(child.Status.LastError).To(gomega.BeEmpty())
}
