// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// TestMigrateFleetReal is the walk of docs/migration.md with Fleet itself: its controllers, and its agent in each
// Cluster. Fleet registers the Clusters by their kubeconfigs, and its agents collect garbage all the time.
func TestMigrateFleetReal(t *testing.T) {
	beginMigration(t)
	s := newScenarioIn(t, ownEnvironment(t, environment.Options{}))
	workloads := s.fleetWorkloads(true)
	fleet := s.startFleet(workloads)
	unchanged := s.migrateFleet(workloads, fleet)
	s.step("agents that start again uninstall nothing", func(s *scenario) {
		fleet.setAgents(s, true)
		before := s.charted(workloads)
		s.Consistently(func() []charted { return s.charted(workloads) }, 4*testbed.FleetGarbageInterval).Should(
			gomega.Equal(before))
		unchanged(s)
	})
	s.step("without the option, Fleet uninstalls a release", func(s *scenario) {
		helmOp := s.newFleetHelmOp("control", "control")
		s.create(helmOp)
		for _, w := range workloads {
			w.in(s).eventuallyRevisions(fleetNamespace, "control", "1 deployed")
		}
		s.remove(helmOp)
		for _, w := range workloads {
			w.in(s).eventuallyRevisions(fleetNamespace, "control")
		}
		s.Expect(fleet.deleted(s)).To(gomega.HaveLen(3 * len(workloads)))
	})
}

// realFleet is Fleet with an agent for each Cluster.
type realFleet struct {
	*testbed.Fleet

	workloads []*workload
	agents    map[string]*process.Process
}

// startFleet starts Fleet, without its agents. It is stopped at the end of the test.
func (s *scenario) startFleet(workloads []*workload) *realFleet {
	s.Helper()
	fleet := &realFleet{workloads: workloads, agents: map[string]*process.Process{}}
	var err error
	fleet.Fleet, err = s.env.Management.StartFleet(s.Context(), testbed.ToolOptions{Root: s.env.Root(),
		Dir: filepath.Join(filepath.Dir(s.env.Management.KubeconfigFile()), "fleet")})
	s.must(err)
	s.Cleanup(func() {
		logs := fleet.LogFiles()
		for _, agent := range fleet.agents {
			s.Expect(agent.Kill()).To(gomega.Succeed())
			logs = append(logs, agent.LogFile())
		}
		s.Expect(fleet.Stop()).To(gomega.Succeed())
		if !s.Failed() {
			return
		}
		for _, log := range logs {
			lines, err := lastLines(log, "", dumpedLines)
			s.Logf("the end of %s (%v):\n%s", log, err, strings.Join(lines, "\n"))
		}
	})
	return fleet
}

// setAgents implements fleetUnderTest.
func (f *realFleet) setAgents(s *scenario, run bool) {
	s.Helper()
	for _, w := range f.workloads {
		if agent := f.agents[w.name]; agent != nil {
			s.must(agent.Stop(s.Context()))
		}
		if run {
			agent, err := f.StartAgent(s.Context(), w.name, w.server)
			s.must(err)
			f.agents[w.name] = agent
		}
	}
}

// deleted implements fleetUnderTest.
func (f *realFleet) deleted(s *scenario) []string {
	s.Helper()
	var deleted []string
	for _, w := range f.workloads {
		// The controllers of Kubernetes delete what the objects of a chart own.
		requests, err := w.server.Requests(apiserver.WithVerb("delete", "deletecollection"),
			apiserver.Not(apiserver.OnResource("secrets")), apiserver.Not(apiserver.ByUserAgent(binaries.Controllers)))
		s.must(err)
		for _, request := range requests {
			if request.Namespace == fleetNamespace {
				deleted = append(deleted, fmt.Sprintf("%s: %s %s by %s", w.name, request.Verb, request.URI, request.UserAgent))
			}
		}
	}
	return deleted
}
