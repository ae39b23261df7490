// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// executable is this program, also if its file was replaced since it began.
func executable() (string, error) { return "/proc/self/exe", nil }

// attributes has a child end with its parent, and spares it the signals of a terminal.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startChild starts a process. A child ends with the thread that started it, so one thread that never ends starts all.
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
