// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestProgramMappings(t *testing.T) {
	t.Parallel()
	const described = `00400000-02e16000 r-xp 00000000 fe:00 7                           /manager
Rss:               40000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
02e16000-05f88000 r--p 02a16000 fe:00 7                           /manager
Rss:               20000 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me
05f88000-06000000 r--p 02a16000 fe:00 7                           /manager
Anonymous:             4 kB
VmFlags: rd mr mw me
06000000-06141000 rw-p 05b88000 fe:00 7                           /manager
Anonymous:             0 kB
VmFlags: rd wr mr mw me
06141000-06142000 r--p 05c88000 fe:00 7                           /manager
Anonymous:             0 kB
Swap:                  4 kB
VmFlags: rd mr mw me
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
VmFlags: rd wr mr mw me
7f0000000000-7f0000001000 r--p 00000000 fe:00 8                   /other program
Anonymous:             0 kB
VmFlags: rd mr mw me
`
	want := []mapping{{0x400000, 0x2e16000}, {0x2e16000, 0x5f88000}}
	if got := programMappings(described, "/manager"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if got := programMappings(described, "/other program"); len(got) != 1 {
		t.Errorf("got %x for a name with a space", got)
	}
}

// TestProgramIsReturned checks that the pages of the program leave the memory of the process, and that the program
// still works.
func TestProgramIsReturned(t *testing.T) {
	before := fileMemory(t)
	for name, cold := range map[string]bool{"after a burst": true, "at rest": false} {
		if err := returnProgram(cold); err != nil {
			t.Fatal(err)
		}
		if after := fileMemory(t); after > before/2 {
			t.Errorf("%s: %d of %d kB of the program are in memory after the return", name, after, before)
		}
		if _, err := newScheme(); err != nil {
			t.Error(err)
		}
	}
}

// fileMemory returns the memory of this process that consists of pages of files, in kB.
func fileMemory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	var size int
	if _, err := fmt.Sscan(rest, &size); err != nil {
		t.Fatal(err)
	}
	return size
}
