// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Argument as the only argument makes this program a contestant.
const Argument = "contestant"

// Process is a running contestant.
type Process struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	encoder *json.Encoder
	decoder *json.Decoder
}

// Start starts this program again, as a contestant. The contestant ends with ctx, or by Stop.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, Argument)
	cmd.Stderr, cmd.WaitDelay = os.Stderr, 5*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, stdin: stdin, encoder: json.NewEncoder(stdin), decoder: json.NewDecoder(stdout)}
	if err := p.encoder.Encode(spec); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Do carries out an order.
func (p *Process) Do(order Order) (Outcome, error) {
	var outcome Outcome
	if err := p.encoder.Encode(order); err != nil {
		return outcome, fmt.Errorf("the contestant does not read orders: %w", err)
	}
	if err := p.decoder.Decode(&outcome); err != nil {
		return outcome, fmt.Errorf("the contestant does not answer: %w", err)
	}
	if outcome.Error != "" {
		return outcome, errors.New(outcome.Error)
	}
	return outcome, nil
}

// Stop ends the contestant.
func (p *Process) Stop() error {
	return errors.Join(p.stdin.Close(), p.cmd.Wait())
}
