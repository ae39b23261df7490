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

// brokenProvider is a version of HelmOp that never becomes ready. The first one has the long timeout of the command
// until its program was started often enough.
type brokenProvider struct {
	step, image string
	// starts is the least number of starts of its program.
	starts int
}

const (
	hangingImage  = "registry.example/manager:hangs"
	crashingImage = "registry.example/manager:crashes"
)

// brokenPrograms writes programs for images that are not managers.
func brokenPrograms(dir string) (map[string]string, error) {
	programs := map[string]string{}
	for image, script := range map[string]string{hangingImage: "exec tail -f /dev/null", crashingImage: "exit 3"} {
		file := filepath.Join(dir, filepath.Base(image))
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"),
			0o755); err != nil { //nolint:gosec // The test runs it.
			return nil, err
		}
		programs[image] = file
	}
	return programs, nil
}

func brokenProviders() []brokenProvider {
	return []brokenProvider{
		{"keeps the old version if the new one crashes", crashingImage, 2},
		{"keeps the old version if the new one cannot start", brokenImage, 0},
		{"keeps the old version if the new one never becomes ready", hangingImage, 1},
	}
}

// keepsOldVersion pushes a version that does not become ready. It checks that the old version keeps working until the
// upgrade is rolled back.
func (s *bootstrapScenario) keepsOldVersion(broken brokenProvider) {
	provider := s.helmOp(providerHelmOp)
	old, starts := s.kubelet.PIDs(secondImage)
	s.Expect(old).To(gomega.HaveLen(1))
	leader := s.leader()
	digest := s.pushProvider("--image", broken.image)
	s.Eventually(func() int {
		_, tried := s.kubelet.PIDs(broken.image)
		return tried
	}).WithContext(s.Context()).Should(gomega.BeNumerically(">=", broken.starts))
	s.setProviderTimeout(&metav1.Duration{Duration: providerTimeout})
	s.child(provider, "management-cluster", func(g gomega.Gomega, release *addonsv1.HelmOpRelease) {
		g.Expect(rolledBack(release.Status.History, digest)).To(gomega.BeTrue(), "%s", toJSON(release.Status))
	})
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.deployment(ctx, g).Spec.Template.Spec.Containers[0].Image).To(gomega.Equal(secondImage))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	now, startsNow := s.kubelet.PIDs(secondImage)
	s.Expect(now).To(gomega.Equal(old), "the old manager was never stopped")
	s.Expect(startsNow).To(gomega.Equal(starts))
	s.Expect(s.leader()).To(gomega.Equal(leader), "the old manager kept the lease")
}

// setProviderTimeout sets how long a new version may take to become ready; nil is the default.
func (s *bootstrapScenario) setProviderTimeout(timeout *metav1.Duration) {
	s.Helper()
	update(s.scenario, s.helmOp(providerHelmOp), func(h *addonsv1.HelmOp) { h.Spec.Health.Timeout = timeout })
}

// rolledBack reports whether an upgrade to an artifact was rolled back.
func rolledBack(history []addonsv1.ReleaseAction, digest string) bool {
	return slices.ContainsFunc(history, func(upgrade addonsv1.ReleaseAction) bool {
		return upgrade.Action == "Upgrade" && upgrade.ArtifactDigest == digest &&
			slices.ContainsFunc(history, func(a addonsv1.ReleaseAction) bool {
				return a.Action == "Rollback" && a.Succeeded && a.FromRevision == upgrade.Revision
			})
	})
}
