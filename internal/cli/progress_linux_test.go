// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// terminal opens a pseudo-terminal. It returns the program's side and the user's side.
func terminal(t *testing.T, columns uint16) (program, user *os.File) {
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

// barBegin is the start of a bar with sizes that need no leading zeros.
var barBegin = regexp.MustCompile(`^pushing (0|[1-9]\d*)(\.\d)? (B|KiB|MiB) of [1-9]\d*(\.\d)? (B|KiB|MiB) \[`)

// TestProgress holds that a transfer draws a bar on a terminal, and prints lines otherwise.
func TestProgress(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("dir/one.yaml", configMap)
	push := func(name string, to, from *os.File) string {
		t.Helper()
		args := []string{"push", b.path("dir"), b.at(name + ":v1"), "--ca-file", b.path("ca.crt"), "--registry-config",
			b.path("config.json")}
		code := Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: io.Discard, ErrOut: to})
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(from) // Reading a terminal whose other side is closed is an error.
		if code != exitDone {
			t.Fatalf("exit code %d: %s", code, said)
		}
		return string(said)
	}

	program, user := terminal(t, 60)
	drawn := push("drawn", program, user)
	bars := strings.Split(strings.TrimSpace(drawn), "\r")
	for _, bar := range bars[1:] {
		if !barBegin.MatchString(bar) || len(bar) >= 60 {
			t.Errorf("%q is no bar of a line", bar)
		}
	}
	if last := bars[len(bars)-1]; !strings.HasSuffix(last, "==]") || strings.Contains(drawn, "sha256:") {
		t.Errorf("a terminal shows %q", drawn)
	}

	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := push("told", to, from)
	if strings.Contains(lines, "\r") || strings.Count(lines, " sha256:") != 3 {
		t.Errorf("a pipe gets %q", lines)
	}
}
