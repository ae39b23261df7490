// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// sysProcAttr requests a process group, so that a terminal's Ctrl-C reaches only the test bed itself, which then stops
// its programs in order. It also requests that the kernel kills the program if the test bed dies.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
