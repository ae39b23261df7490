// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Task is one kind of work for a child.
type Task struct {
	// Decode decodes the shared data of requests for Run. It is called once for each child. Nil if there is no shared
	// data.
	Decode func(data []byte) (any, error)
	// Run runs the work and returns its output. It must not change the shared data, and must not use the input after it
	// returns.
	Run func(work *Work) ([]byte, error)
}

// Tasks are the tasks of a program, by name.
type Tasks map[string]Task

func merged(all []Tasks) Tasks {
	tasks := Tasks{}
	for _, some := range all {
		maps.Copy(tasks, some)
	}
	return tasks
}

// Work is the input of a task for one request.
type Work struct {
	// Input is the input of the request.
	Input []byte
	// Shared is the result of Task.Decode for the shared data; nil if the request has none.
	Shared any
	// Note records what the work is doing. A [*LimitError] contains the last note.
	Note func(text string)
	// Ask calls Request.Answer and returns the answer. If Answer fails, the error has the same text.
	Ask func(question []byte) ([]byte, error)
}

// Request is a request to run a task.
type Request struct {
	// Task is the name of the task.
	Task string
	// Tenant is the tenant of the request. Tenants share children fairly.
	Tenant string
	// HoldsMemory means that the caller holds memory of the budget behind [Options.Reserve]. Then it must not wait for
	// more, so Reserve is not called. The task must limit its output itself.
	HoldsMemory bool
	// Input is passed to the task.
	Input []byte
	// Shared is data that other requests use too; nil if there is none.
	Shared *Shared
	// Begin, if set, is called right before the task runs, when the request has a child. If it returns an error, the task
	// does not run, and Run returns this error.
	Begin func() error
	// Answer answers the questions of the task. It runs in the parent, with the context of the request. Nil refuses all
	// questions.
	Answer func(ctx context.Context, question []byte) ([]byte, error)
}

// Shared is data that many requests share. A child keeps the most recently used data. This data is neither sent nor
// decoded again.
type Shared struct {
	// Key identifies the data: equal keys mean equal data for the same task.
	Key string
	// Data returns the data. It is called only if the child does not have it.
	Data func() ([]byte, error)
}

// Runner runs requests.
type Runner interface {
	// Run returns the output of a task. The error is a [*TaskError] if the task failed, and a [*LimitError] if a limit
	// terminated it. The error wraps [ErrNoChild] or [ErrNoMemory] if other requests are the cause: retry later.
	Run(ctx context.Context, request Request) ([]byte, error)
}

// Limits are the limits of one request. A field that is 0 has its default.
type Limits struct {
	// Memory is the address space that a child may use in addition to its address space at the start, in bytes. Default:
	// 512 MiB.
	Memory int64
	// CPU is the CPU time of one request, in whole seconds. Default: 30 seconds.
	CPU time.Duration
	// Time is the time of one request, from its start in a child, without the waits for memory. Default: 5 minutes.
	Time time.Duration
	// Output is the maximum size of the output, and of each question, in bytes. Default: 64 MiB.
	Output int64
}

func (l Limits) withDefaults() Limits {
	if l.Memory <= 0 {
		l.Memory = 512 << 20
	}
	if l.CPU <= 0 {
		l.CPU = 30 * time.Second
	}
	if l.Time <= 0 {
		l.Time = 5 * time.Minute
	}
	if l.Output <= 0 {
		l.Output = 64 << 20
	}
	return l
}

// TaskError is the error of a task.
type TaskError struct {
	// Text is the text of the error that the task returned.
	Text string
}

func (e *TaskError) Error() string { return e.Text }

// Limit is the reason why a child ended.
type Limit string

// These are the reasons.
const (
	LimitMemory Limit = "memory"
	LimitCPU    Limit = "cpu"
	LimitTime   Limit = "time"
	LimitOutput Limit = "output"
	// LimitCrash means that the child exited or the operating system killed it, and that no limit is known to be the
	// reason.
	LimitCrash Limit = "crash"
)

// AllLimits are all reasons.
var AllLimits = []Limit{LimitMemory, LimitCPU, LimitTime, LimitOutput, LimitCrash}

// LimitError means that a request was terminated.
type LimitError struct {
	// Limit is the reason.
	Limit Limit
	// Limits are the limits of the request.
	Limits Limits
	// Doing is the last note of the work; empty if there was none.
	Doing string
	// Detail has more information about LimitCrash.
	Detail string
	// Remedies are [Options.Remedies].
	Remedies map[Limit]string
}

// Error says which limit was exceeded, and where.
func (e *LimitError) Error() string {
	var text string
	switch e.Limit {
	case LimitMemory:
		text = fmt.Sprintf("it needed more than %d MiB of memory", e.Limits.Memory>>20)
	case LimitCPU:
		text = fmt.Sprintf("it needed more than %s of CPU time", e.Limits.CPU)
	case LimitTime:
		text = "it was not done in time"
	case LimitOutput:
		text = fmt.Sprintf("its output exceeded %d MiB", e.Limits.Output>>20)
	default:
		text = "its process ended (" + e.Detail + ")"
	}
	if e.Doing != "" {
		text += " at " + e.Doing
	}
	return text
}

// Remedy returns what a user can do if the work itself cannot be changed, for example which flag of the manager raises
// the limit.
func (e *LimitError) Remedy() string {
	if e.Remedies != nil {
		return e.Remedies[e.Limit]
	}
	switch e.Limit {
	case LimitMemory:
		return "raise --render-memory of the manager"
	case LimitCPU:
		return "raise --render-cpu of the manager"
	case LimitTime:
		return "raise --render-timeout of the manager"
	case LimitOutput:
		return "split it"
	default:
		return "look at the memory of the node of the manager"
	}
}

var (
	// ErrNoChild means that no child was available for the request in time.
	ErrNoChild = errors.New("no renderer was free in time")
	// ErrNoMemory means that [Options.Reserve] returned an error, usually because no memory became free in time.
	ErrNoMemory = errors.New("no memory was free in time for the output of the renderer")
)
