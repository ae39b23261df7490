// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

func init() {
	testTasks["priority"] = Task{Run: func(w *Work) ([]byte, error) {
		if string(w.Input) == "long" {
			// The signal may arrive late on a busy machine.
			before, err := highestPriority()
			for started := cpuTime(); err == nil && cpuTime()-started < 25*time.Second; {
				if now, err := highestPriority(); err != nil || now[0] != before[0] {
					return now, err
				}
			}
		}
		return highestPriority()
	}}
}

// highestPriority returns the highest priority among the threads of the process, relative to leastNice.
func highestPriority() ([]byte, error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	highest := 0
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return nil, err
		}
		priority, err := unix.Getpriority(unix.PRIO_PROCESS, id)
		if err != nil {
			return nil, err
		}
		highest = max(highest, priority)
	}
	return []byte{byte(highest), byte(os.Getpid()), byte(os.Getpid() >> 8)}, nil
}

// TestLongRequestsHaveLowPriority checks that a request that has used much CPU time continues with a lower priority,
// and that this does not affect later requests.
func TestLongRequestsHaveLowPriority(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	g.Expect(err).NotTo(HaveOccurred())
	pool := newTestPool(t, Limits{})
	before, err := pool.Run(t.Context(), Request{Task: "priority"})
	g.Expect(err).NotTo(HaveOccurred())
	short := max(leastNice-maxNice, own-childNice)
	g.Expect(before[0]).To(BeEquivalentTo(short), "the manager is first")
	long, err := pool.Run(t.Context(), Request{Task: "priority", Input: []byte("long")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(long[0]).To(BeEquivalentTo(max(leastNice-maxNice, short-slower)))
	g.Expect(long[1:]).To(Equal(before[1:]), "the child is the same")
	after, err := pool.Run(t.Context(), Request{Task: "priority"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after[0]).To(BeEquivalentTo(short))
	g.Expect(after[1:]).NotTo(Equal(long[1:]), "the child with the low priority has ended")
}
