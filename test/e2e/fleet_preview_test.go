// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
)

// previewsAsTheManager previews other values, and compares the preview with what the manager then does.
func (s *scenario) previewsAsTheManager() {
	helmOp := s.newHelmOp("previewed", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(2))
	s.Expect(s.mustCommand("preview", "previewed")).To(gomega.ContainSubstring("2 of 2 alike: one, two: no changes"))

	values := filepath.Join(s.TempDir(), "values.yaml")
	s.Expect(os.WriteFile(values, []byte("greeting: later\n"), 0o600)).To(gomega.Succeed())
	output, code := s.helmopCommand("preview", "previewed", "--values", values)
	s.Expect(code).To(gomega.Equal(1), output)
	s.Expect(output).To(gomega.SatisfyAll(gomega.ContainSubstring("2 of 2 alike: one, two: ~1 ConfigMap"),
		gomega.ContainSubstring("\n+  greeting: later\n")))
	s.Expect(s.mustCommand("preview", "previewed")).To(gomega.ContainSubstring("no changes"))

	s.setGreeting(helmOp, "later")
	s.eventually(helmOp, ready(2), inPhase(2, addonsv1.RolloutPhaseComplete))
	s.Expect(s.mustCommand("preview", "previewed")).To(gomega.ContainSubstring("no changes"))
}

// approvesThePreview approves the digests that the preview prints, before the first installation and for a changed
// HelmOp in a file.
func (s *scenario) approvesThePreview() {
	helmOp := s.newHelmOp("approved", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Values = helloValues(map[string]any{"greeting": "hello {{ .ClusterName }}"})
		h.Spec.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
	})
	s.create(helmOp)
	asked := s.awaitsApproval(helmOp, 1, 2)
	s.Expect(s.previewed("approved").ApprovalDigest).To(gomega.Equal(asked))
	s.approve(helmOp, asked)
	s.eventually(helmOp, ready(2))

	changed := &addonsv1.HelmOp{TypeMeta: helmOp.TypeMeta, Spec: *helmOp.Spec.DeepCopy()}
	changed.SetGroupVersionKind(addonsv1.GroupVersion.WithKind("HelmOp"))
	changed.Name = helmOp.Name
	changed.Spec.Source.Ref = addonsv1.ArtifactReference{Tag: "1.1.0"}
	data, err := yaml.Marshal(changed)
	s.must(err)
	file := filepath.Join(s.TempDir(), "helmop.yaml")
	s.must(os.WriteFile(file, data, 0o600))
	preview := s.previewed("-f", file)
	s.Expect(preview).To(gomega.And(gomega.HaveField("Differ", 2), gomega.HaveField("Failed", 0)))
	s.Expect(s.previewed("approved", "--set-version", "1.1.0").ApprovalDigest).To(gomega.Equal(preview.ApprovalDigest))
	s.Expect(s.previewed("-f", file, "--cluster", "one").ApprovalDigest).To(gomega.BeEmpty())

	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref = changed.Spec.Source.Ref })
	s.Expect(s.awaitsApproval(helmOp, 2, 2)).To(gomega.Equal(preview.ApprovalDigest))
	s.approve(helmOp, preview.ApprovalDigest)
	s.eventually(helmOp, ready(2), inPhase(2, addonsv1.RolloutPhaseComplete))
	s.Expect(s.mustCommand("preview", "approved")).To(gomega.ContainSubstring("no changes"))
}

// previewed previews something, and returns the result.
func (s *scenario) previewed(args ...string) *rendering.Preview {
	s.Helper()
	output, code := s.helmopCommand(append([]string{"preview", "-o", "json"}, args...)...)
	s.Expect(code).To(gomega.BeNumerically("<=", 1), output)
	preview := &rendering.Preview{}
	s.Expect(json.Unmarshal([]byte(output), preview)).To(gomega.Succeed(), output)
	return preview
}

// previewsDifferences previews values from a Secret that change one Cluster, and are invalid in another one.
func (s *scenario) previewsDifferences() {
	const planted = "planted-for-preview"
	secret := s.opaque("differences", map[string][]byte{"values.yaml": []byte("greeting: " + planted + "\n")})
	helmOp := s.newHelmOp("differing", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(2))
	changed := &addonsv1.HelmOp{Spec: *helmOp.Spec.DeepCopy()}
	changed.SetGroupVersionKind(addonsv1.GroupVersion.WithKind("HelmOp"))
	changed.Name = helmOp.Name
	changed.Spec.Overrides = []addonsv1.Override{
		{Name: "canary", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}},
			ValuesFrom: []addonsv1.ValuesReference{{Kind: "Secret", Name: secret.Name, Key: "values.yaml"}}},
	}
	data, err := yaml.Marshal(changed)
	s.must(err)
	file := filepath.Join(s.TempDir(), "helmop.yaml")
	s.must(os.WriteFile(file, data, 0o600))
	output, code := s.helmopCommand("preview", "-f", file)
	s.Expect(code).To(gomega.Equal(1), output)
	s.Expect(output).To(gomega.And(gomega.ContainSubstring("1 differ, 1 same"),
		gomega.ContainSubstring("one: ~1 ConfigMap"), gomega.ContainSubstring("two: no changes"),
		gomega.ContainSubstring("[digest "), gomega.Not(gomega.ContainSubstring(planted))))
	output, code = s.helmopCommand("preview", "-f", file, "--show-secrets")
	s.Expect(code).To(gomega.Equal(1), output)
	s.Expect(output).To(gomega.ContainSubstring("+  greeting: " + planted))

	// An error in one Cluster does not hide the results of the others.
	changed.Spec.Overrides[0].ValuesFrom = nil
	changed.Spec.Overrides[0].ValuesTemplate = "greeting: {{ .No.Such }}"
	data, err = yaml.Marshal(changed)
	s.must(err)
	s.must(os.WriteFile(file, data, 0o600))
	output, code = s.helmopCommand("preview", "-f", file)
	s.Expect(code).To(gomega.BeNumerically(">", 1), output)
	s.Expect(output).To(gomega.And(gomega.ContainSubstring("1 same, 1 failed"),
		gomega.ContainSubstring("two: no changes")))
}
