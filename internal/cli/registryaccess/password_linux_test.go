// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/terminal"
)

// TestPromptPassword reads a password from a terminal, and interrupts the prompt. The terminal must then show again
// what the user types.
func TestPromptPassword(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	program, user := terminal.Open(t, 80)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type result struct {
		password []byte
		err      error
	}
	results := make(chan result)
	prompt := func() {
		password, err := PromptPassword(ctx, genericiooptions.IOStreams{In: program, ErrOut: io.Discard}, "Password: ")
		results <- result{password, err}
	}
	hides := func() bool {
		settings, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
		return err == nil && settings.Lflag&unix.ECHO == 0
	}
	wait := func(condition bool) {
		g.Eventually(hides, 30*time.Second, time.Millisecond).Should(gomega.Equal(condition))
	}

	go prompt()
	wait(true)
	if _, err := user.WriteString("secret\n"); err != nil {
		t.Fatal(err)
	}
	if got := <-results; got.err != nil || string(got.password) != "secret" {
		t.Errorf("got %q, %v", got.password, got.err)
	}

	go prompt()
	wait(true)
	cancel()
	if got := <-results; !errors.Is(got.err, context.Canceled) || got.password != nil {
		t.Errorf("got %q, %v after an interruption", got.password, got.err)
	}
	wait(false)

	go prompt()
	if got := <-results; !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %q, %v after the interruption", got.password, got.err)
	}
	g.Consistently(hides, 50*time.Millisecond, time.Millisecond).Should(gomega.BeFalse())
}
