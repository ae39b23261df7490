// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a program may take to exit after SIGTERM.
const stopGrace = 15 * time.Second

// hangGrace is how long a program may run after SIGSTOP.
const hangGrace = 15 * time.Second

// tailLimit is how much of a log an error quotes, in bytes.
const tailLimit = 2048

// Spec describes a program to run.
type Spec struct {
	// Name is used in errors. Default: the base name of Path.
	Name string
	// Path is the executable.
	Path string
	// Args are the arguments, without the program's own name.
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// Dir is the working directory. Default: the working directory of this process.
	Dir string
	// LogFile receives stdout and stderr, appended. Required.
	LogFile string
}

// Process is a started program.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	// err is written before done is closed.
	err error

	mu       sync.Mutex
	stopping bool
}

// Start starts a program and does not wait for it.
func Start(spec Spec) (*Process, error) {
	if spec.Name == "" {
		spec.Name = filepath.Base(spec.Path)
	}
	if err := os.MkdirAll(filepath.Dir(spec.LogFile), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	// The child has its own descriptor of the log.
	defer func() { _ = log.Close() }()

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Dir = spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = sysProcAttr()
	if err := startOnForkThread(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	started := time.Now()
	go func() {
		p.err = cmd.Wait()
		writeUsage(spec, cmd.ProcessState, time.Since(started))
		close(p.done)
	}()
	return p, nil
}

// writeUsage appends a line to the file in the environment variable HELMOP_TESTBED_USAGE, if it is set. The line has
// the program, its name, its CPU time and its wall time in seconds. The sum by program is the cost of a test suite.
func writeUsage(spec Spec, state *os.ProcessState, wall time.Duration) {
	path := os.Getenv("HELMOP_TESTBED_USAGE")
	if path == "" || state == nil {
		return
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // No test needs the figures.
	}
	defer func() { _ = file.Close() }()
	_, _ = fmt.Fprintf(file, "%s\t%s\t%.2f\t%.2f\n",
		filepath.Base(spec.Path), spec.Name, (state.UserTime() + state.SystemTime()).Seconds(), wall.Seconds())
}

// forkRequests passes commands to the thread that starts them. The kernel sends the parent-death signal when the
// starting *thread* ends, and Go may end any thread. The thread is therefore locked, and lives as long as the process.
var forkRequests = sync.OnceValue(func() chan<- func() {
	requests := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range requests {
			f()
		}
	}()
	return requests
})

func startOnForkThread(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	forkRequests() <- func() { result <- cmd.Start() }
	return <-result
}

// PID returns the process id, which is also the id of the process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogFile returns the file with the program's output.
func (p *Process) LogFile() string { return p.spec.LogFile }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits for the end of the program and returns its exit error, or the error of ctx.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Signal sends sig to the program and its children. It returns no error if the program has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	if err := syscall.Kill(-p.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", p.spec.Name, err)
	}
	return nil
}

// Hang stops the program's execution without ending it: its connections stay open, and the program does not answer.
// Hang returns when no thread of the program runs any more.
func (p *Process) Hang() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	timeout := time.NewTimer(hangGrace)
	defer timeout.Stop()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for p.Running() && !isStopped(p.PID()) {
		select {
		case <-ticker.C:
		case <-timeout.C:
			return fmt.Errorf("%s still runs %s after a SIGSTOP", p.spec.Name, hangGrace)
		}
	}
	return nil
}

// isStopped reports whether all threads of a process are stopped, see proc(5). On a system without /proc, it returns
// true.
func isStopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // The thread has ended.
		}
		// The state follows the name, which is in brackets and may contain any character.
		_, state, found := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
		if found && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// Resume undoes Hang.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Kill ends the program with SIGKILL and waits for the end.
func (p *Process) Kill() error {
	p.setStopping()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop sends SIGTERM to the program. It kills the program after 15 seconds, or when ctx is done before. It returns an
// error only if the signals cannot be sent.
func (p *Process) Stop(ctx context.Context) error {
	p.setStopping()
	// A hung program receives SIGTERM only after it continues.
	if err := errors.Join(p.Signal(syscall.SIGTERM), p.Signal(syscall.SIGCONT)); err != nil {
		return err
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.Kill()
}

func (p *Process) setStopping() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

// Unexpected returns an error with the end of the log if the program ended without a call of Stop or Kill. Otherwise it
// returns nil.
func (p *Process) Unexpected() error {
	p.mu.Lock()
	stopping := p.stopping
	p.mu.Unlock()
	if stopping || p.Running() {
		return nil
	}
	exit := p.err
	if exit == nil {
		exit = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended (%w), its log %s ends with:\n%s", p.spec.Name, exit, p.spec.LogFile, tail(p.spec.LogFile))
}

// WaitHealthy polls check every 50 ms until it returns nil. It returns check's last error when the program ends or ctx
// is done.
func (p *Process) WaitHealthy(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return errors.Join(fmt.Errorf("%s ended before it was healthy", p.spec.Name), p.Unexpected())
		case <-ctx.Done():
			return fmt.Errorf("%s is not healthy (%w), last error: %w; its log %s ends with:\n%s",
				p.spec.Name, ctx.Err(), err, p.spec.LogFile, tail(p.spec.LogFile))
		case <-ticker.C:
		}
	}
}

// tail returns the last lines of a log.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err.Error()
	}
	buf := make([]byte, min(info.Size(), tailLimit))
	n, _ := file.ReadAt(buf, info.Size()-int64(len(buf)))
	return strings.ToValidUTF8(string(buf[:n]), "")
}
