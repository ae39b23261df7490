// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// Open opens a pseudo-terminal with 24 lines. It returns the program's side and the user's side, which ends with the
// test. The test is skipped if there are no terminals.
func Open(t *testing.T, columns uint16) (program, user *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	var locked, number int32
	ioctl(t, user, syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	ioctl(t, user, syscall.TIOCGPTN, unsafe.Pointer(&number))
	ioctl(t, user, syscall.TIOCSWINSZ, unsafe.Pointer(&struct{ rows, columns, x, y uint16 }{rows: 24, columns: columns}))
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return program, user
}

func ioctl(t *testing.T, file *os.File, request uintptr, argument unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, uintptr(argument)); errno != 0 {
		t.Fatal(errno)
	}
}
