// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"github.com/onsi/gomega"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// recreatedWhileManagerIsDown deletes a Cluster while no manager runs, and creates another one with the same name.
// HelmOp observes no deletion. It must not apply the old release's state to the new Cluster, which gets a new
// installation.
func (s *scenario) recreatedWhileManagerIsDown(name string) *workload {
	s.Helper()
	options := testbed.ClusterOptions{Name: name, PodCIDRs: []string{"10.1.0.0/16"}}
	former := s.clusters(options)[0]
	helmOp := s.newHelmOp("recreated", forAll)
	s.create(helmOp)
	former.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 1)
	s.setGreeting(helmOp, "again")
	child := former.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 2)
	cluster := s.cluster(name)
	s.Expect(child.Status.ClusterUID).To(gomega.Equal(string(cluster.UID)))

	s.killManager()
	// No manager runs that could observe the deletion, so it needs no delay.
	s.must(s.skipDeletionDelay(s.Context()))
	s.remove(cluster)
	s.eventuallyGone(cluster)
	recreated := s.clusters(options)[0]
	// The next step kills this manager, and the lease of a killed manager delays its successor.
	_, err := s.env.StartManager(s.Context(), shortLease...)
	s.must(err)

	current := recreated.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 1)
	s.Expect(current.UID).To(gomega.Equal(child.UID),
		"the HelmOpRelease was re-created: HelmOp has observed the deletion of the Cluster")
	s.Expect(current.Status.ClusterUID).To(gomega.Equal(string(s.cluster(name).UID)))
	s.Expect(current.Status.History).To(gomega.HaveLen(1), "the history has entries of the former Cluster")
	recreated.eventuallyRevisions(releaseNamespace, helmOp.Name, "1 deployed")
	recreated.eventuallyHello(releaseNamespace, helmOp.Name, map[string]string{"greeting": "again"})
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	return recreated
}
