// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// returnProgram returns the pages of the program to the system. A start uses most pages of the program, and an idle
// manager few of them. The kernel maps a page again when it is used, usually from its cache. With cold, the pages no
// longer count as the working set of the container, and a node that is short of memory drops them first.
//
// The function reads the mappings each time. Since the last time, a tracer may have written breakpoints into pages of
// the program, and a return would remove them.
func returnProgram(cold bool) error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	described, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	for _, m := range programMappings(string(described), program) {
		if cold { // Linux before 5.4 does not know cold pages.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.begin, m.end-m.begin, unix.MADV_COLD)
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.begin, m.end-m.begin, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ begin, end uintptr }

// programMappings returns the mappings of a program in the text of /proc/PID/smaps whose pages all equal the file. A
// mapping with anonymous pages is left out, also if they are swapped out: their content, such as relocated addresses,
// is not in the file.
func programMappings(described, program string) []mapping {
	var found []mapping
	current, isOfProgram := mapping{}, false
	for line := range strings.Lines(described) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if begin, end, ok := strings.Cut(fields[0], "-"); ok && !strings.HasSuffix(fields[0], ":") {
			var errBegin, errEnd error
			current.begin, errBegin = parseAddress(begin)
			current.end, errEnd = parseAddress(end)
			isOfProgram = errBegin == nil && errEnd == nil && len(fields) > 5 && !strings.Contains(fields[1], "w") &&
				strings.Join(fields[5:], " ") == program
			continue
		}
		switch {
		case !isOfProgram:
		case fields[1] != "0" && (fields[0] == "Anonymous:" || fields[0] == "Swap:"):
			isOfProgram = false
		case fields[0] == "VmFlags:": // the last line of a mapping
			found = append(found, current)
		}
	}
	return found
}

func parseAddress(text string) (uintptr, error) {
	address, err := strconv.ParseUint(text, 16, strconv.IntSize)
	return uintptr(address), err
}
