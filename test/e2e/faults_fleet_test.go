// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// unresponsiveClusters is more than the manager of TestMoreUnresponsiveClustersThanWorkers has workers.
const unresponsiveClusters = 4

// TestMoreUnresponsiveClustersThanWorkers freezes more API servers than there are workers. The release of the only
// Cluster that answers must not wait until all others were tried.
func TestMoreUnresponsiveClustersThanWorkers(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{ManagerArgs: []string{"--helmoprelease-concurrency=2"}})
	s := newScenarioIn(t, env)
	options := []testbed.ClusterOptions{{Name: "fine", PodCIDRs: []string{"10.1.0.0/16"}}}
	for i := range unresponsiveClusters {
		options = append(options, testbed.ClusterOptions{Name: fmt.Sprintf("a-hung-%d", i),
			PodCIDRs: []string{"10.2.0.0/16"}})
	}
	workloads := s.clusters(options...)
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(len(options)))
	for _, hung := range workloads[1:] {
		s.must(hung.server.Hang())
		s.Cleanup(func() {
			if err := hung.server.Resume(); err != nil {
				s.Error(err)
			}
		})
	}
	changed := time.Now()
	s.setGreeting(helmOp, "two")
	workloads[0].eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
	t.Logf("upgraded after %s", time.Since(changed).Round(time.Millisecond))
	s.Expect(time.Since(changed)).To(gomega.BeNumerically("<", time.Minute))
	for _, hung := range workloads[1:] {
		s.child(helmOp, hung.name, unreachable)
	}
}
