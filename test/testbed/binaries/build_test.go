// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func TestLineCounterCountsLines(t *testing.T) {
	var counter lineCounter
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo one >&2; echo two >&2; read line")
	cmd.Stderr = &counter
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The command runs until its input ends.
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			return counter.count() == 2, nil
		})
	if err != nil {
		t.Errorf("%d lines are counted while the command runs", counter.count())
	}
	if _, err := io.WriteString(stdin, "end\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(counter.text.String()); counter.count() != 2 || len(got) != 2 {
		t.Errorf("%d lines: %q", counter.count(), got)
	}
}
