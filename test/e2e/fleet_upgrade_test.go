// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	"github.com/onsi/gomega"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
)

// checksAnUpgrade checks a release whose hook uses a removed API for the next minor version of Kubernetes. Then it
// follows the advice in the result.
func (s *scenario) checksAnUpgrade() {
	s.pushBudget("1.0.0", "policy/v1beta1")
	s.pushBudget("2.0.0", "policy/v1")
	helmOp := s.newHelmOp("budget", forAll, s.from("charts/budget", addonsv1.ArtifactReference{Tag: "1.0.0"}))
	helmOp.Spec.Values = nil
	s.create(helmOp)
	s.eventually(helmOp, ready(2))

	running, err := apilifecycle.ParseVersion(s.env.Management.Server.Version())
	s.must(err)
	next := fmt.Sprintf("%d.%d", running.Major, running.Minor+1)
	output, code := s.helmopCommand("upgrade-check", "--to", next, "budget")
	s.Expect(code).To(gomega.Equal(1), output)
	s.Expect(output).To(gomega.SatisfyAll(gomega.ContainSubstring("2 of 2 alike: one, two"),
		gomega.ContainSubstring("PodDisruptionBudget of policy/v1beta1 is not served since v1.25, use policy/v1: the "+
			"release has the hook budget, and chart 1.0.0 renders it again"),
		gomega.ContainSubstring(`spec.refsByKubernetesVersion for ">=`+next+`"`)))

	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.RefsByKubernetesVersion = []addonsv1.KubernetesVersionReference{
			{KubernetesVersion: ">=" + next, Ref: addonsv1.ArtifactReference{Tag: "2.0.0"}}}
	})
	s.eventually(helmOp, ready(2))
	s.Expect(s.mustCommand("upgrade-check", "--to", next, "budget")).To(gomega.SatisfyAll(
		gomega.ContainSubstring("nothing to do"),
		gomega.ContainSubstring("VersionChanges: spec.refsByKubernetesVersion chooses version 2.0.0")))
}
