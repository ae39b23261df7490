// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// sysProcAttr makes a process group, so that a terminal's Ctrl-C reaches only
// the test bed itself, which then stops its programs in order; and asks the
// kernel to kill the program should the test bed die without doing so.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
