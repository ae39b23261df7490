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
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// brokenProvider is a version of the provider that never becomes ready.
type brokenProvider struct {
	what string
	// args are those of the command that pushes it.
	args []string
	// image is the one that the Deployment has then.
	image string
}

const hangingImage = "registry.example/manager:hangs"

// brokenPrograms are programs for images that are no managers.
func brokenPrograms(dir string) (map[string]string, error) {
	programs := map[string]string{}
	for image, script := range map[string]string{hangingImage: "exec tail -f /dev/null"} {
		file := filepath.Join(dir, filepath.Base(image))
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil { //nolint:gosec // It is to be run.
			return nil, err
		}
		programs[image] = file
	}
	return programs, nil
}

func brokenProviders() []brokenProvider {
	return []brokenProvider{
		{"cannot be started", []string{"--image", brokenImage}, brokenImage},
		{"never becomes ready", []string{"--image", hangingImage}, hangingImage},
	}
}

// staysOnTheOld pushes a version that does not become ready, and holds that the old one is never ended, and takes it back.
func (s *bootstrapScenario) staysOnTheOld(broken brokenProvider) {
	provider := s.helmOp(providerHelmOp)
	update(s.scenario, provider, func(h *addonsv1.HelmOp) { h.Spec.Health.Timeout = &metav1.Duration{Duration: providerTimeout} })
	var before []int
	s.Eventually(func(g gomega.Gomega) {
		before, _ = s.kubelet.PIDs()
		g.Expect(before).To(gomega.HaveLen(1), "what was tried before has ended")
	}).WithContext(s.Context()).Should(gomega.Succeed())
	began := metav1.NewTime(time.Now().Truncate(time.Second))
	s.pushProvider(broken.args...)
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.deployment(ctx, g).Spec.Template.Spec.Containers[0].Image).To(gomega.Equal(broken.image))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		release := s.children(ctx, g, provider)["management-cluster"]
		g.Expect(release).NotTo(gomega.BeNil())
		g.Expect(slices.ContainsFunc(release.Status.History, func(a addonsv1.ReleaseAction) bool {
			return a.Action == "Rollback" && a.Succeeded && !a.Time.Before(&began)
		})).To(gomega.BeTrue(), "%s", toJSON(release.Status))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.deployment(ctx, g).Spec.Template.Spec.Containers[0].Image).To(gomega.Equal(secondImage))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	after, _ := s.kubelet.PIDs()
	for _, pid := range before {
		s.Expect(after).To(gomega.ContainElement(pid), "the old one was never ended")
	}
}
