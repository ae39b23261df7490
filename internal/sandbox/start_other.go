//go:build !linux

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

func attributes() *syscall.SysProcAttr { return nil }

func startChild(cmd *exec.Cmd) error { return cmd.Start() }
