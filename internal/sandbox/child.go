// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// environment is the environment variable that makes a process a child. It holds the limits of the child as JSON.
const environment = "HELMOP_SANDBOX"

// These are the exit codes of a child. The code is 0 if the parent no longer needs the child.
const (
	exitLimit    = 3
	exitProtocol = 4
)

// Serve does the work of a child. It exits when the parent no longer needs the child. In a process that is not a child,
// it returns at once. Call it before anything else in main.
func Serve(tasks ...Tasks) {
	text, ok := os.LookupEnv(environment)
	if !ok {
		return
	}
	c := &child{tasks: merged(tasks), out: os.Stdout, answers: make(chan []byte), requests: make(chan []byte)}
	if err := json.Unmarshal([]byte(text), &c.limits); err != nil {
		os.Exit(exitProtocol)
	}
	if err := c.confine(); err != nil {
		fmt.Fprintln(os.Stderr, "setting the limits of a renderer:", err)
		os.Exit(exitProtocol)
	}
	// Recursive templates use the stack, so the stack has a limit too.
	debug.SetMaxStack(int(c.limits.Memory / 4))
	go c.read(os.Stdin)
	for request := range c.requests {
		c.serve(request)
	}
}

// child is a process that works for a parent.
type child struct {
	limits   Limits
	tasks    Tasks
	requests chan []byte
	answers  chan []byte

	mu  sync.Mutex
	out io.Writer
	// shared holds the received data, and decoded holds the decoded data. Only one request at a time uses them.
	shared  [slots][]byte
	decoded [slots]any
	// allowed is the CPU time of the process, in nanoseconds, at which the current request is stopped. isSlow is set when
	// the process has a lower priority. The process cannot raise its priority again.
	allowed atomic.Int64
	isSlow  atomic.Bool
	// base is the memory that the process had at its start, in bytes.
	base int64
}

// read receives the frames of the parent. It never waits for the work, so that a child always exits with its parent.
func (c *child) read(from io.Reader) {
	for {
		kind, content, err := readFrame(from, maxInput, nil)
		switch {
		case err != nil:
			os.Exit(0)
		case kind == frameShared || kind == frameRequest:
			c.requests <- append([]byte{kind}, content...)
		case kind == frameAnswer:
			c.answers <- content
		default:
			os.Exit(exitProtocol)
		}
	}
}

// serve handles one frame: it runs a request, or stores shared data.
func (c *child) serve(frame []byte) {
	kind, slot, rest := frame[0], frame[1], frame[2:]
	if kind == frameShared {
		c.shared[slot], c.decoded[slot] = rest, nil
		return
	}
	name, input := string(rest[1:1+rest[0]]), rest[1+rest[0]:]
	if err := c.allowCPU(); err != nil {
		c.send(frameFailure, []byte{1}, []byte(err.Error()))
		os.Exit(exitProtocol)
	}
	output, err := c.work(name, slot, input)
	if err == nil && int64(len(output)) > c.limits.Output {
		c.exceeded(LimitOutput)
	}
	last := byte(0)
	if c.exceedsKept() || c.isSlow.Load() {
		last = 1
	}
	if err != nil {
		c.send(frameFailure, []byte{last}, []byte(err.Error()))
	} else {
		c.send(frameResult, []byte{last}, output)
	}
	if last == 1 {
		os.Exit(0)
	}
}

// work runs the task. A panic becomes an error without the text of the panic, which may contain secret values.
func (c *child) work(name string, slot byte, input []byte) (output []byte, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	task, ok := c.tasks[name]
	if !ok {
		return nil, fmt.Errorf("there is no task %q", name)
	}
	work := &Work{
		Input: input,
		Note:  func(text string) { c.send(frameNote, []byte(text)) },
		Ask:   c.ask,
	}
	if slot < slots {
		if c.shared[slot] != nil {
			if c.decoded[slot], err = task.Decode(c.shared[slot]); err != nil {
				return nil, err
			}
			c.shared[slot] = nil
		}
		work.Shared = c.decoded[slot]
	}
	return task.Run(work)
}

// errPanic replaces a panic.
var errPanic = errors.New("internal error: panic; please report it")

func (c *child) ask(question []byte) ([]byte, error) {
	if int64(len(question)) > c.limits.Output {
		c.exceeded(LimitOutput)
	}
	c.send(frameQuestion, question)
	answer := <-c.answers
	if len(answer) == 0 || answer[0] == 1 {
		return nil, errors.New(string(answer[min(1, len(answer)):]))
	}
	return answer[1:], nil
}

// send writes a frame. If the parent no longer reads, it has ended.
func (c *child) send(kind byte, parts ...[]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := writeFrame(c.out, kind, parts...); err != nil {
		os.Exit(0)
	}
}

// exceeded exits because of a limit.
func (c *child) exceeded(limit Limit) {
	c.send(frameLimit, []byte(limit))
	os.Exit(exitLimit)
}
