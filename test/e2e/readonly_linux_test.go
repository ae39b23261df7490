// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/containers"
)

// TestReadOnlyRootFileSystem runs the manager as its Deployment describes: without capabilities, as another user, and
// with no other writable folders than the volumes. The manager installs, upgrades and uninstalls a release. Package
// containers tests that everything else is read-only.
func TestReadOnlyRootFileSystem(t *testing.T) {
	if err := containers.Unsupported(); err != nil {
		t.Skipf("this machine cannot run the manager with a read-only root file system: %v", err)
	}
	begin(t)
	s := newScenarioIn(t, ownEnvironment(t, environment.Options{NoManager: true}))
	const refused = "read-only file system"
	s.step("does not start without a volume for artifacts", func(s *scenario) {
		manager, err := s.env.LaunchContainer(s.Context(), "artifacts")
		s.must(err)
		s.Eventually(manager.Done()).WithContext(s.Context()).Should(gomega.BeClosed())
		s.Expect(read(s, manager.LogFile())).To(gomega.ContainSubstring(refused))
	})
	manager, err := s.env.LaunchContainer(s.Context())
	s.must(err)
	s.must(manager.WaitReady(s.Context(), "http://"+manager.HealthAddress+"/readyz"))
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	one.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "1.1.0" })
	one.eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
	s.eventually(helmOp, ready(1))

	s.step("the process has no rights, and its files are in the volumes", func(s *scenario) {
		process := filepath.Join("/proc", fmt.Sprint(manager.PID()))
		status := strings.Join(strings.Fields(read(s, filepath.Join(process, "status"))), " ")
		for _, want := range []string{"Uid: 65532 65532 65532 65532", "CapEff: 0000000000000000",
			"CapBnd: 0000000000000000", "NoNewPrivs: 1"} {
			s.Expect(status).To(gomega.ContainSubstring(want))
		}
		stored, err := filepath.Glob(filepath.Join(process, "root/var/cache/helmop/artifacts/*"))
		s.must(err)
		s.Expect(stored).NotTo(gomega.BeEmpty())
	})
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	s.Expect(read(s, manager.LogFile())).NotTo(gomega.ContainSubstring(refused))
}

// read returns the content of a file.
func read(s *scenario, path string) string {
	s.Helper()
	content, err := os.ReadFile(path)
	s.must(err)
	return string(content)
}
