// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// executable returns the path of this program, even if its file was replaced after the start.
func executable() (string, error) { return "/proc/self/exe", nil }

// attributes makes a child end with its parent, and protects it from the signals of a terminal.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startChild starts a process. A child ends with the thread that started it. So one thread that never ends starts all
// children.
func startChild(cmd *exec.Cmd) error {
	beginStarter()
	done := make(chan error)
	starts <- func() { done <- cmd.Start() }
	return <-done
}

var (
	starts = make(chan func())

	beginStarter = sync.OnceFunc(func() {
		go func() {
			runtime.LockOSThread()
			for start := range starts {
				start()
			}
		}()
	})
)
