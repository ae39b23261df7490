// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// brokenProvider is a version of the provider that never becomes ready.
type brokenProvider struct {
	step, image string
	// starts is how often its program is started at least.
	starts int
}

const (
	hangingImage  = "registry.example/manager:hangs"
	crashingImage = "registry.example/manager:crashes"
)

// brokenPrograms are programs for images that are no managers.
func brokenPrograms(dir string) (map[string]string, error) {
	programs := map[string]string{}
	for image, script := range map[string]string{hangingImage: "exec tail -f /dev/null", crashingImage: "exit 3"} {
		file := filepath.Join(dir, filepath.Base(image))
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"),
			0o755); err != nil { //nolint:gosec // It is to be run.
			return nil, err
		}
		programs[image] = file
	}
	return programs, nil
}

func brokenProviders() []brokenProvider {
	return []brokenProvider{
		{"one that cannot be started does not", brokenImage, 0},
		{"one that never becomes ready does not", hangingImage, 1},
		{"one that ends again and again does not", crashingImage, 2},
	}
}

// staysOnTheOld pushes a version that does not become ready, and holds that the old one is at work throughout, and
// takes it back.
func (s *bootstrapScenario) staysOnTheOld(broken brokenProvider) {
	provider := s.helmOp(providerHelmOp)
	update(s.scenario, provider,
		func(h *addonsv1.HelmOp) { h.Spec.Health.Timeout = &metav1.Duration{Duration: providerTimeout} })
	old, starts := s.kubelet.PIDs(secondImage)
	s.Expect(old).To(gomega.HaveLen(1))
	leader := s.leader()
	digest := s.pushProvider("--image", broken.image)
	s.child(provider, "management-cluster", func(g gomega.Gomega, release *addonsv1.HelmOpRelease) {
		g.Expect(rolledBack(release.Status.History, digest)).To(gomega.BeTrue(), "%s", toJSON(release.Status))
	})
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.deployment(ctx, g).Spec.Template.Spec.Containers[0].Image).To(gomega.Equal(secondImage))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	_, tried := s.kubelet.PIDs(broken.image)
	s.Expect(tried).To(gomega.BeNumerically(">=", broken.starts))
	now, startsNow := s.kubelet.PIDs(secondImage)
	s.Expect(now).To(gomega.Equal(old), "the old one was never ended")
	s.Expect(startsNow).To(gomega.Equal(starts))
	s.Expect(s.leader()).To(gomega.Equal(leader), "and never stopped working")
}

// rolledBack tells whether an upgrade to an artifact was taken back.
func rolledBack(history []addonsv1.ReleaseAction, digest string) bool {
	return slices.ContainsFunc(history, func(upgrade addonsv1.ReleaseAction) bool {
		return upgrade.Action == "Upgrade" && upgrade.ArtifactDigest == digest &&
			slices.ContainsFunc(history, func(a addonsv1.ReleaseAction) bool {
				return a.Action == "Rollback" && a.Succeeded && a.FromRevision == upgrade.Revision
			})
	})
}
