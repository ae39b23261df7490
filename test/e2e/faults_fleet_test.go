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

// hungClusters is more than the manager of TestMoreHungClustersThanWorkers has workers.
const hungClusters = 4

// TestMoreHungClustersThanWorkers freezes more API servers than releases are worked on at the same time. What is wanted
// of the one Cluster that answers must not wait until all others were tried.
func TestMoreHungClustersThanWorkers(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{ManagerArgs: []string{"--helmoprelease-concurrency=2"}})
	s := newScenarioIn(t, env)
	options := []testbed.ClusterOptions{{Name: "fine", PodCIDRs: []string{"10.1.0.0/16"}}}
	for i := range hungClusters {
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
