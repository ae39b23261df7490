// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/terminal"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestLiveStatus follows a rollout with waves on a terminal, up to its end.
func TestLiveStatus(t *testing.T) {
	s := newScenario(t)
	s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, Labels: map[string]string{"canary": "yes"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}},
	)
	helmOp := s.newHelmOp("live", forAll, withCanary)
	s.create(helmOp)
	s.eventually(helmOp, ready(2))

	screen, end := s.onTerminal("status", "live", "--live", "--namespace", s.namespace)
	s.Eventually(screen, patience).Should(gbytes.Say("one, two"))
	s.setGreeting(helmOp, "two")
	s.Eventually(screen, patience).Should(gbytes.Say("waits for the promotion"))
	s.mustCommand("rollout", "promote", "live", "--wave", "canary")
	s.Eventually(screen, patience).Should(gbytes.Say("HelmOp revision 2 Complete"))
	s.Expect(end()).To(gomega.BeZero())
	// The previous content of the terminal is restored, and the last status is below it.
	s.Eventually(screen, patience).Should(gbytes.Say(`\x1b\[\?1049l`))
	s.Eventually(screen, patience).Should(gbytes.Say("HelmOp revision 2 Complete"))
}

// onTerminal runs kubectl helmop on a terminal. end is Ctrl-C, and returns the exit code.
func (s *scenario) onTerminal(args ...string) (screen *gbytes.Buffer, end func() int) {
	s.Helper()
	program, user := terminal.Open(s.T, 150)
	screen = gbytes.NewBuffer()
	go func() { _, _ = io.Copy(screen, user) }() // Reading a terminal whose other side is closed is an error.
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan int)
	go func() {
		ended <- cli.Run(ctx, append(args, "--kubeconfig", s.env.Management.KubeconfigFile()),
			cli.Streams{In: strings.NewReader(""), Out: program, ErrOut: os.Stderr})
	}()
	return screen, func() int {
		cancel()
		code := <-ended
		s.must(program.Close())
		return code
	}
}
