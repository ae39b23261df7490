// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

var testTasks = Tasks{
	"echo": {Run: func(w *Work) ([]byte, error) { return w.Input, nil }},
	"fail": {Run: func(w *Work) ([]byte, error) { return nil, errors.New(string(w.Input)) }},
	"pid":  {Run: func(*Work) ([]byte, error) { return []byte{byte(os.Getpid()), byte(os.Getpid() >> 8)}, nil }},
	"panic": {Run: func(w *Work) ([]byte, error) {
		panic(string(w.Input))
	}},
	"ask": {Run: func(w *Work) ([]byte, error) { return w.Ask(w.Input) }},
	"allocate": {Run: func(w *Work) ([]byte, error) {
		w.Note("allocating")
		var kept [][]byte
		for {
			kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
			runtime.KeepAlive(kept)
		}
	}},
	"repeat": {Run: func(w *Work) ([]byte, error) {
		w.Note("repeating")
		return []byte(strings.Repeat("x", 1<<37)), nil
	}},
	"recurse": {Run: func(w *Work) ([]byte, error) { return []byte{recurse(0)}, nil }},
	"spin": {Run: func(w *Work) ([]byte, error) {
		w.Note("spinning")
		for i := 0; ; i++ {
			runtime.KeepAlive(i)
		}
	}},
	"large": {Run: func(*Work) ([]byte, error) { return make([]byte, 2<<20), nil }},
	"shared": {
		Decode: func(data []byte) (any, error) { return strings.ToUpper(string(data)), nil },
		Run: func(w *Work) ([]byte, error) {
			text, _ := w.Shared.(string)
			return []byte(text), nil
		},
	},
	"open":    {Run: func(*Work) ([]byte, error) { return nil, writeFile() }},
	"environ": {Run: func(*Work) ([]byte, error) { return []byte(strings.Join(os.Environ(), "\n")), nil }},
}

// recurse needs more stack than the limit of a child.
func recurse(n int) byte {
	var frame [1 << 10]byte
	if n < 0 {
		return 0
	}
	frame[n%len(frame)] = recurse(n + 1)
	return frame[0]
}

func writeFile() error {
	file, err := os.CreateTemp("", "sandbox")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("x")
	return err
}

func TestMain(m *testing.M) {
	Serve(testTasks)
	os.Exit(m.Run())
}

func newTestPool(t *testing.T, limits Limits) *Pool {
	t.Helper()
	// On a busy machine, the next request of a test may come much later than the last.
	pool := NewPool(Options{Limits: limits, Children: 2, Idle: time.Hour})
	t.Cleanup(pool.Close)
	return pool
}

func TestRun(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := newTestPool(t, Limits{})
	for _, input := range []string{"", "a", strings.Repeat("x", 5<<20)} {
		g.Expect(pool.Run(t.Context(), Request{Task: "echo", Input: []byte(input)})).To(BeEquivalentTo(input))
	}
	first, err := pool.Run(t.Context(), Request{Task: "pid"})
	g.Expect(err).NotTo(HaveOccurred())
	for task, text := range map[string]string{"fail": "why", "panic": errPanic.Error(), "nothing": "no task",
		"ask": "nothing is answered here"} {
		_, err := pool.Run(t.Context(), Request{Task: task, Input: []byte("why")})
		var failed *TaskError
		g.Expect(errors.As(err, &failed)).To(BeTrue(), "%s: %v", task, err)
		g.Expect(err).To(MatchError(ContainSubstring(text)))
	}
	g.Expect(pool.Run(t.Context(), Request{Task: "pid"})).To(Equal(first), "a task that fails leaves its child")
	answer := func(_ context.Context, question []byte) ([]byte, error) {
		if string(question) == "no" {
			return nil, errors.New("refused")
		}
		return append([]byte("to "), question...), nil
	}
	g.Expect(pool.Run(t.Context(),
		Request{Task: "ask", Input: []byte("this"), Answer: answer})).To(BeEquivalentTo("to this"))
	_, err = pool.Run(t.Context(), Request{Task: "ask", Input: []byte("no"), Answer: answer})
	g.Expect(err).To(MatchError("refused"))
	environ, err := pool.Run(t.Context(), Request{Task: "environ"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(environ)).NotTo(ContainSubstring("PATH="))
}

// Each of these tasks would end or block the process that runs it.
func TestLimits(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all limits")
	}
	for task, tc := range map[string]struct {
		limits Limits
		want   Limit
		doing  string
	}{
		"allocate": {want: LimitMemory, doing: "allocating"},
		"repeat":   {want: LimitMemory, doing: "repeating"},
		"recurse":  {want: LimitMemory},
		"spin":     {want: LimitCPU, doing: "spinning"},
		"large":    {limits: Limits{Output: 1 << 20}, want: LimitOutput},
	} {
		t.Run(task, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			limits := tc.limits
			limits.Memory, limits.CPU = 256<<20, time.Second
			if tc.want != LimitCPU {
				limits.CPU = time.Minute
			}
			pool := newTestPool(t, limits)
			ended := make(chan Limit, 1)
			pool.options.Ended = func(limit Limit) { ended <- limit }
			_, err := pool.Run(t.Context(), Request{Task: task})
			var limited *LimitError
			g.Expect(errors.As(err, &limited)).To(BeTrue(), "%v", err)
			g.Expect(limited.Limit).To(Equal(tc.want), "%v", err)
			g.Expect(limited.Doing).To(Equal(tc.doing))
			g.Expect(ended).To(Receive(Equal(tc.want)))
			g.Expect(pool.Run(t.Context(), Request{Task: "echo", Input: []byte("next")})).To(BeEquivalentTo("next"))
		})
	}
}

func TestChildrenWriteNoFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all limits")
	}
	_, err := newTestPool(t, Limits{}).Run(t.Context(), Request{Task: "open"})
	NewWithT(t).Expect(err).To(HaveOccurred())
}

// TestBegin expects that Begin is called when a request has a child, and not while the request waits for one or when it
// has ended. A request that Begin refuses does not run, and leaves its child to others.
func TestBegin(t *testing.T) {
	t.Parallel()
	p := NewPool(Options{Children: 1})
	t.Cleanup(p.Close)
	for _, other := range []string{"two", "three"} {
		if err := p.acquire(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	begun, refusal := 0, errors.New("not counted")
	request := Request{Task: "none", Tenant: "one", Begin: func() error { begun++; return refusal }}
	ended, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Run(ended, request); err == nil || begun != 0 {
		t.Errorf("a waiting request: %v, begun %d times", err, begun)
	}
	p.release("two")
	p.release("three")
	if _, err := p.Run(ended, request); err == nil || begun != 0 {
		t.Errorf("an ended request: %v, begun %d times", err, begun)
	}
	for want := 1; want <= 2; want++ {
		if _, err := p.Run(t.Context(), request); !errors.Is(err, refusal) || begun != want {
			t.Errorf("got %v, begun %d times, want %d", err, begun, want)
		}
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := newTestPool(t, Limits{})
	limited := &LimitError{}
	// A busy machine may take longer than the first deadlines to start the child.
	for wait := 200 * time.Millisecond; limited.Doing == "" && wait < time.Minute; wait *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := pool.Run(ctx, Request{Task: "spin"})
		cancel()
		g.Expect(errors.As(err, &limited)).To(BeTrue(), "%v", err)
		g.Expect(limited.Limit).To(Equal(LimitTime))
	}
	g.Expect(limited.Doing).To(Equal("spinning"))

	stopped, stop := context.WithCancelCause(t.Context())
	stop(errors.New("stopped"))
	_, err := pool.Run(stopped, Request{Task: "spin"})
	g.Expect(err).To(MatchError(ContainSubstring("stopped")))

	_, err = newTestPool(t, Limits{Time: 200 * time.Millisecond}).Run(t.Context(), Request{Task: "spin"})
	g.Expect(errors.As(err, &limited)).To(BeTrue(), "%v", err)
	g.Expect(limited.Limit).To(Equal(LimitTime))
}

func TestSharedDataIsSentOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := newTestPool(t, Limits{})
	sent := 0
	get := func(key string) string {
		out, err := pool.Run(t.Context(), Request{Task: "shared", Shared: &Shared{Key: key, Data: func() ([]byte, error) {
			sent++
			return []byte(key), nil
		}}})
		g.Expect(err).NotTo(HaveOccurred())
		return string(out)
	}
	for range 3 {
		for _, key := range []string{"a", "b", "c", "d"} {
			g.Expect(get(key)).To(Equal(strings.ToUpper(key)))
		}
	}
	g.Expect(sent).To(Equal(4))
	get("e")
	get("b")
	g.Expect(sent).To(Equal(5))
	get("a")
	g.Expect(sent).To(Equal(6))
	_, err := pool.Run(t.Context(),
		Request{Task: "shared", Shared: &Shared{Key: "x",
			Data: func() ([]byte, error) { return nil, errors.New("no data") }}})
	g.Expect(err).To(MatchError("no data"))
	g.Expect(get("a")).To(Equal("A"))
}

// TestOutputIsReserved checks that memory is reserved before a large output is read, and that the memory is given back.
func TestOutputIsReserved(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := newTestPool(t, Limits{Time: time.Minute})
	reserved, released := int64(0), 0
	pool.options.Reserve = func(_ context.Context, tenant string, size int64) (func(), error) {
		g.Expect(tenant).To(Equal("a"))
		reserved += size
		return func() { released++ }, nil
	}
	g.Expect(pool.Run(t.Context(), Request{Task: "echo", Tenant: "a", Input: []byte("small")})).To(BeEquivalentTo("small"))
	g.Expect(reserved).To(BeZero())
	g.Expect(pool.Run(t.Context(), Request{Task: "large", Tenant: "a"})).To(HaveLen(2 << 20))
	g.Expect(reserved).To(BeEquivalentTo(2<<20 + 1))
	g.Expect(released).To(Equal(1))
	g.Expect(pool.Run(t.Context(), Request{Task: "large", Tenant: "a", HoldsMemory: true})).To(HaveLen(2 << 20))
	g.Expect(released).To(Equal(1), "the caller holds memory")
}

// TestQuestionReleasesItsMemory checks that a request does not wait for memory that its own question holds.
func TestQuestionReleasesItsMemory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := newTestPool(t, Limits{})
	held, reserved := 0, 0
	pool.options.Reserve = func(context.Context, string, int64) (func(), error) {
		g.Expect(held).To(BeZero())
		held++
		reserved++
		return func() { held-- }, nil
	}
	answer := func(_ context.Context, question []byte) ([]byte, error) {
		g.Expect(held).To(Equal(1))
		return question, nil
	}
	input := make([]byte, 2<<20)
	g.Expect(pool.Run(t.Context(), Request{Task: "ask", Input: input, Answer: answer})).To(HaveLen(len(input)))
	g.Expect(reserved).To(Equal(2), "the question and the output")
	g.Expect(held).To(BeZero())
}

// TestNoMemoryIsNoLimit checks that a request whose output gets no memory did not exceed a limit. Its child ends.
func TestNoMemoryIsNoLimit(t *testing.T) {
	t.Parallel()
	untilDeadline := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, tc := range map[string]struct {
		reserve   func(ctx context.Context) error
		isStopped bool
	}{
		"the reservation fails":   {func(context.Context) error { return errors.New("no memory") }, false},
		"the deadline has passed": {untilDeadline, false},
		"the request is stopped":  {untilDeadline, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			pool := newTestPool(t, Limits{})
			isReserved := false
			pool.options.Ended = func(limit Limit) {
				if isReserved {
					t.Errorf("the limit %q ended a child", limit)
				}
			}
			stopped, stop := context.WithCancelCause(t.Context())
			pool.options.Reserve = func(ctx context.Context, _ string, _ int64) (func(), error) {
				isReserved = true
				if tc.isStopped {
					stop(errors.New("stopped"))
				}
				return nil, tc.reserve(ctx)
			}
			var err error
			// A busy machine may take longer than the first deadlines to start the child.
			for wait := time.Second; !isReserved; wait *= 2 {
				ctx, cancel := context.WithTimeout(stopped, wait)
				_, err = pool.Run(ctx, Request{Task: "large", Tenant: "a"})
				cancel()
			}
			if tc.isStopped {
				g.Expect(err).To(MatchError("stopped"))
			} else {
				g.Expect(err).To(MatchError(ErrNoMemory))
			}
			var limited *LimitError
			g.Expect(errors.As(err, &limited)).To(BeFalse(), "%v", err)
			g.Expect(pool.idle).To(BeEmpty())
			next := Request{Task: "echo", Input: []byte("next")}
			g.Expect(pool.Run(t.Context(), next)).To(BeEquivalentTo("next"))
		})
	}
}

// TestTimeExcludesWaitsForMemory checks that the time of a request does not pass while it waits for memory.
func TestTimeExcludesWaitsForMemory(t *testing.T) {
	t.Parallel()
	child, err := startProcess(Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer child.stop()
	limit := newTimeLimit(time.Hour, func() { t.Error("the time has ended") })
	wasPaused := false
	child.reserve = func(context.Context, string, int64) (func(), error) {
		wasPaused = !limit.timer.Stop()
		return func() {}, nil
	}
	doing := ""
	if _, err := child.exchange(t.Context(), limit, &Request{Task: "large"}, &doing); err != nil || !wasPaused {
		t.Errorf("%v, the time was paused: %t", err, wasPaused)
	}
	if !limit.timer.Stop() {
		t.Error("the time does not pass after the wait")
	}
}

func TestTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, ended := time.Now(), make(chan time.Duration, 1)
		limit := newTimeLimit(time.Minute, func() { ended <- time.Since(start) })
		for _, pause := range []time.Duration{time.Hour, time.Second} {
			time.Sleep(20 * time.Second)
			resume := limit.pause()
			time.Sleep(pause)
			resume()
		}
		if got, want := <-ended, time.Minute+time.Hour+time.Second; got != want {
			t.Errorf("ended after %s, want %s", got, want)
		}
		limit.pause()()
		if limit.timer.Stop() {
			t.Error("the timer runs again after the end")
		}
	})
}

// TestWaitForChildIsBounded checks that a request waits at most a minute for a child. Its caller may hold memory for
// which the requests in the children wait.
func TestWaitForChildIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Children: 1})
		for _, other := range []string{"two", "three"} {
			if err := p.acquire(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		for limit, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			start := time.Now()
			_, err := p.Run(ctx, Request{Task: "none", Tenant: "one"})
			if waited := time.Since(start); !errors.Is(err, ErrNoChild) || waited != want {
				t.Errorf("waited %s within %s, want %s: %v", waited, limit, want, err)
			}
			cancel()
		}
	})
}

func TestIdleChildrenEnd(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := newTestPool(t, Limits{})
	pool.options.Idle = 100 * time.Millisecond
	_, err := pool.Run(t.Context(), Request{Task: "echo"})
	g.Expect(err).NotTo(HaveOccurred())
	idle := func() int {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		return len(pool.idle)
	}
	g.Eventually(idle).Should(BeZero())
	g.Expect(pool.Run(t.Context(), Request{Task: "echo", Input: []byte("a")})).To(BeEquivalentTo("a"))
}

// A child that was killed while it was idle does not make the next request fail.
func TestIdleChildWasKilled(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := newTestPool(t, Limits{})
	_, err := pool.Run(t.Context(), Request{Task: "echo"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pool.idle[0].cmd.Process.Kill()).To(Succeed())
	g.Expect(pool.Run(t.Context(), Request{Task: "echo", Input: []byte("a")})).To(BeEquivalentTo("a"))
}

func TestNextWaiter(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	line := func(tenants string) (waiters []*waiter) {
		for _, tenant := range tenants {
			waiters = append(waiters, &waiter{tenant: string(tenant)})
		}
		return waiters
	}
	for _, tc := range []struct {
		waiting  string
		held     map[string]int
		children int
		want     int
	}{
		{waiting: "", children: 2, want: -1},
		{waiting: "aab", children: 2, want: 0},
		{waiting: "aab", held: map[string]int{"a": 1}, children: 2, want: 2},
		{waiting: "aa", held: map[string]int{"a": 1}, children: 2, want: 0},
		{waiting: "aa", held: map[string]int{"a": 2}, children: 2, want: -1},
		{waiting: "aab", held: map[string]int{"a": 2}, children: 2, want: 2},
		{waiting: "abc", held: map[string]int{"a": 2, "b": 1}, children: 2, want: -1},
		{waiting: "ab", held: map[string]int{"a": 1}, children: 1, want: 1},
	} {
		busy := 0
		for _, n := range tc.held {
			busy += n
		}
		g.Expect(nextWaiter(line(tc.waiting), tc.held, busy, tc.children)).To(Equal(tc.want), "%+v", tc)
	}
}

// TestTenantsAreServedAlternately checks that a tenant does not wait for all older waiters of tenants that have as few
// running requests.
func TestTenantsAreServedAlternately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pool := NewPool(Options{Children: 1})
		served := ""
		for _, tenant := range strings.Split("ababababcc", "") {
			go func() {
				if err := pool.acquire(t.Context(), tenant); err != nil {
					t.Error(err)
				}
				served += tenant
			}()
			synctest.Wait()
		}
		for ended := 0; ended < len(served); ended++ {
			pool.release(served[ended : ended+1])
			synctest.Wait()
		}
		g.Expect(served).To(Equal("ababcabcab"))
	})
}

func BenchmarkRun(b *testing.B) {
	pool := NewPool(Options{})
	defer pool.Close()
	input := make([]byte, 64<<10)
	for b.Loop() {
		if _, err := pool.Run(b.Context(), Request{Task: "echo", Input: input}); err != nil {
			b.Fatal(err)
		}
	}
}
