// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxStderr is how much of a child's standard error is kept, in bytes. The runtime writes the reason for its exit
	// there.
	maxStderr = 4 << 10
	// maxNote is the maximum length of a note of a child.
	maxNote = 512
)

// process is the parent's state of a child. One request at a time uses it.
type process struct {
	limits Limits
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	// stderrHead is the beginning of the standard error. It is complete after reap.
	stderrHead *headBuffer
	// keys are the keys of the shared data in the slots of the child. recent are the slots, the most recently used one
	// last.
	keys   [slots]string
	recent []byte
	// idleSince is when the last request ended.
	idleSince time.Time
	// isOver is true if the process accepts no more requests.
	isOver bool
	// reserve is [Options.Reserve].
	reserve func(ctx context.Context, tenant string, size int64) (release func(), err error)
}

func startProcess(limits Limits) (*process, error) {
	program, err := executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(limits)
	if err != nil {
		return nil, err
	}
	// The parent itself stops the child. With a context, the child would stop with the first request.
	cmd := exec.Command(program) //nolint:noctx // See above.
	cmd.Args = []string{"helmop-renderer"}
	cmd.Env = []string{environment + "=" + string(text), "GOTRACEBACK=none", "GOMAXPROCS=2"}
	cmd.SysProcAttr = attributes()
	p := &process{limits: limits, cmd: cmd, stderrHead: &headBuffer{}, recent: []byte{0, 1, 2, 3}}
	cmd.Stderr = p.stderrHead
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReaderSize(out, 32<<10)
	if err := startChild(cmd); err != nil {
		return nil, fmt.Errorf("starting a renderer: %w", err)
	}
	return p, nil
}

// reap waits until the process has ended. Call it only when no goroutine reads from the process any more.
func (p *process) reap() error { return p.cmd.Wait() }

// stop stops the process. It does not wait for the end of the process.
func (p *process) stop() {
	p.isOver = true
	_ = p.cmd.Process.Kill()
	go func() { _ = p.reap() }()
}

// run runs a request. After an error other than a *TaskError, the process is stopped.
func (p *process) run(ctx context.Context, request *Request) ([]byte, error) {
	timed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := newTimeLimit(p.limits.Time, func() { cancel(context.DeadlineExceeded) })
	defer limit.timer.Stop()
	unbind := context.AfterFunc(timed, func() { _ = p.cmd.Process.Kill() })
	doing := ""
	output, err := p.exchange(timed, limit, request, &doing)
	isStopped := !unbind()
	if hasNoMemory := errors.Is(err, ErrNoMemory); isStopped || hasNoMemory {
		p.isOver = true
		_ = p.cmd.Process.Kill()
		_ = p.reap()
		switch {
		case err == nil:
			// The process sent its result before it was killed.
			return output, nil
		case errors.Is(ctx.Err(), context.Canceled):
			return nil, context.Cause(ctx)
		case hasNoMemory:
			return nil, err
		}
		return nil, &LimitError{Limit: LimitTime, Limits: p.limits, Doing: doing}
	}
	var failed *TaskError
	if err == nil || errors.As(err, &failed) {
		if p.isOver {
			p.stop()
		}
		return output, err
	}
	p.isOver = true
	_ = p.cmd.Process.Kill()
	return nil, p.explain(err, p.reap(), doing)
}

// timeLimit ends a request after its time. The time does not include pauses.
type timeLimit struct {
	timer *time.Timer
	// end is when the timer fires.
	end time.Time
}

func newTimeLimit(limit time.Duration, end func()) *timeLimit {
	return &timeLimit{timer: time.AfterFunc(limit, end), end: time.Now().Add(limit)}
}

// pause stops the timer until resume is called.
func (l *timeLimit) pause() (resume func()) {
	start := time.Now()
	if !l.timer.Stop() {
		return func() {} // the time has ended
	}
	return func() {
		l.end = l.end.Add(time.Since(start))
		l.timer.Reset(time.Until(l.end))
	}
}

// explain returns why the communication with a process failed, after the process has ended.
func (p *process) explain(err, ended error, doing string) error {
	limited := &LimitError{Limit: LimitCrash, Limits: p.limits, Doing: doing}
	var known *LimitError
	var size errFrameSize
	stderrHead := p.stderrHead.String()
	switch {
	case errors.As(err, &known):
		known.Doing = doing
		return known
	case errors.As(err, &size):
		limited.Limit = LimitOutput
	case strings.Contains(stderrHead, "out of memory"), strings.Contains(stderrHead, "cannot allocate memory"),
		strings.Contains(stderrHead, "stack overflow"):
		limited.Limit = LimitMemory
	case ended != nil:
		limited.Detail = ended.Error()
	default:
		limited.Detail = err.Error()
	}
	return limited
}

// exchange sends a request, and reads frames until the result.
func (p *process) exchange(ctx context.Context, limit *timeLimit, request *Request, doing *string) ([]byte, error) {
	slot, err := p.share(request.Shared)
	if err != nil {
		return nil, err
	}
	// release returns the memory of the last frame.
	release := func() {}
	defer func() { release() }()
	name := append([]byte{slot, byte(len(request.Task))}, request.Task...)
	if err := writeFrame(p.in, frameRequest, name, request.Input); err != nil {
		return nil, err
	}
	reserve := func(size int64) error {
		if p.reserve == nil || request.HoldsMemory || size <= smallFrame {
			return nil
		}
		defer limit.pause()()
		reserved, err := p.reserve(ctx, request.Tenant, size)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoMemory, err)
		}
		release = reserved
		return nil
	}
	for {
		// Otherwise, the next frame could wait for the memory of the last frame.
		release()
		release = func() {}
		kind, content, err := readFrame(p.out, p.limits.Output+1, reserve)
		if err != nil {
			return nil, err
		}
		switch kind {
		case frameNote:
			*doing = string(content[:min(len(content), maxNote)])
		case frameQuestion:
			if err := p.answer(ctx, request, content); err != nil {
				return nil, err
			}
		case frameResult, frameFailure:
			if len(content) == 0 {
				return nil, errors.New("an empty result")
			}
			p.isOver = content[0] == 1
			if kind == frameFailure {
				return nil, &TaskError{Text: string(content[1:])}
			}
			return content[1:], nil
		case frameLimit:
			return nil, &LimitError{Limit: Limit(content), Limits: p.limits}
		default:
			return nil, fmt.Errorf("a frame of kind %d", kind)
		}
	}
}

func (p *process) answer(ctx context.Context, request *Request, question []byte) error {
	if request.Answer == nil {
		return writeFrame(p.in, frameAnswer, []byte{1}, []byte("nothing is answered here"))
	}
	answer, err := request.Answer(ctx, question)
	if err != nil {
		return writeFrame(p.in, frameAnswer, []byte{1}, []byte(err.Error()))
	}
	return writeFrame(p.in, frameAnswer, []byte{0}, answer)
}

// share sends shared data to the child if the child does not have it. It returns the slot of the data.
func (p *process) share(shared *Shared) (byte, error) {
	if shared == nil {
		return noSlot, nil
	}
	at := slices.IndexFunc(p.recent, func(slot byte) bool { return p.keys[slot] == shared.Key })
	if isNew := at < 0; isNew {
		data, err := shared.Data()
		if err != nil {
			// The child received nothing and can still be used.
			return 0, &TaskError{Text: err.Error()}
		}
		at = 0
		slot := p.recent[at]
		if err := writeFrame(p.in, frameShared, []byte{slot}, data); err != nil {
			return 0, err
		}
		p.keys[slot] = shared.Key
	}
	slot := p.recent[at]
	p.recent = append(slices.Delete(p.recent, at, at+1), slot)
	return slot, nil
}

// has reports whether the child has shared data.
func (p *process) has(shared *Shared) bool {
	return shared != nil && slices.Contains(p.keys[:], shared.Key)
}

// headBuffer keeps the beginning of the written data. It is safe for concurrent use.
type headBuffer struct {
	mu   sync.Mutex
	head bytes.Buffer
}

func (b *headBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.head.Write(data[:min(len(data), maxStderr-b.head.Len())])
	return len(data), nil
}

func (b *headBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.head.String()
}
