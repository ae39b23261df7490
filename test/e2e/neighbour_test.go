// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// strictTimes is how often a neighbour is served before the hostile actions start, and during each of them, if the
	// limit is strict. Otherwise, once is enough.
	strictTimes = 3

	// slowFactor and slowTime are the limits of isSlow.
	slowFactor = 10
	slowTime   = time.Minute

	// strictEnv is set by `make test-hostile`, which runs one test at a time. A neighbour is then served strictTimes
	// during hostile actions, and the median must be at most strictFactor times the usual duration.
	strictEnv    = "HELMOP_STRICT"
	strictFactor = 2
)

func isStrict() bool { return os.Getenv(strictEnv) != "" }

// neighbour is a tenant whose releases are installed and upgraded while another tenant is hostile.
type neighbour struct {
	*scenario
	cluster *workload
	helmOps []*addonsv1.HelmOp
	// install and upgrade are the usual durations: the medians.
	install, upgrade time.Duration
}

// newNeighbour measures how long it usually takes to serve a tenant. Call it before the hostile actions start.
func newNeighbour(cluster *workload) *neighbour {
	n := &neighbour{scenario: cluster.scenario, cluster: cluster}
	n.Helper()
	n.serve(n.T) // The first release pulls the chart and discovers the cluster's API.
	n.install, n.upgrade = n.serveOften(n.T)
	n.Logf("a release is usually installed in %s and upgraded in %s", n.install, n.upgrade)
	return n
}

func median(times []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

// serveOften installs and upgrades several releases, one after the other, and returns the medians of the durations.
func (n *neighbour) serveOften(t *testing.T) (install, upgrade time.Duration) {
	t.Helper()
	times := 1
	if isStrict() {
		times = strictTimes
	}
	var installs, upgrades []time.Duration
	for range times {
		install, upgrade := n.serve(t)
		installs, upgrades = append(installs, install), append(upgrades, upgrade)
	}
	return median(installs), median(upgrades)
}

// serve installs one more release and upgrades it.
func (n *neighbour) serve(t *testing.T) (install, upgrade time.Duration) {
	t.Helper()
	s := n.in(t)
	cluster := n.cluster.in(s)
	helmOp := s.newHelmOp(fmt.Sprint("served-", len(n.helmOps)), forAll)
	n.helmOps = append(n.helmOps, helmOp)
	began := time.Now()
	s.create(helmOp)
	cluster.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 1)
	install, began = time.Since(began), time.Now()
	s.setGreeting(helmOp, "served")
	cluster.expectGreeting(helmOp, 2, "served")
	return install.Round(time.Millisecond), time.Since(began).Round(time.Millisecond)
}

// expectServed installs and upgrades a release during hostile actions, and logs the durations. The limit is coarse,
// because tests share the processors with other tests: the test fails only if a duration is more than slowFactor times
// the usual one and also more than slowTime. `make test-hostile` has a strict limit, see strictEnv.
func (n *neighbour) expectServed(t *testing.T) {
	t.Helper()
	install, upgrade := n.serveOften(t)
	for what, took := range map[string][2]time.Duration{
		"installed": {install, n.install}, "upgraded": {upgrade, n.upgrade},
	} {
		if isSlow(took[0], took[1]) {
			t.Errorf("the other tenant's release is %s in %s, usually in %s", what, took[0], took[1])
		}
	}
	t.Logf("the other tenant's release is installed in %s (%.1f times the usual) and upgraded in %s (%.1f times)",
		install, install.Seconds()/n.install.Seconds(), upgrade, upgrade.Seconds()/n.upgrade.Seconds())
}

// isSlow reports whether a neighbour waits much longer than usual.
func isSlow(took, usual time.Duration) bool {
	if isStrict() {
		return took > strictFactor*usual
	}
	return took > slowTime && took > slowFactor*usual
}

// expectUntouched checks that each release is in the state that the neighbour installed.
func (n *neighbour) expectUntouched(t *testing.T) {
	t.Helper()
	s := n.in(t)
	for _, helmOp := range n.helmOps {
		n.cluster.in(s).expectGreeting(helmOp, 2, "served")
		s.eventually(helmOp, ready(1))
	}
}

// expectUninstalled uninstalls all releases.
func (n *neighbour) expectUninstalled(t *testing.T) {
	t.Helper()
	s := n.in(t)
	for _, helmOp := range n.helmOps {
		s.remove(helmOp)
	}
	for _, helmOp := range n.helmOps {
		s.eventuallyGone(helmOp)
	}
	for _, helmOp := range n.helmOps {
		n.cluster.in(s).expectNothing(releaseNamespace, helmOp.Name)
	}
}
