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

// Task is one kind of work that a child can do.
type Task struct {
	// Decode returns what Run gets of the data that requests share. It is called once for each child. Nil if there is no
	// such data.
	Decode func(data []byte) (any, error)
	// Run does the work and returns its output. It must not change the shared data, and must not keep the input.
	Run func(work *Work) ([]byte, error)
}

// Tasks are the tasks of a program by their names.
type Tasks map[string]Task

func merged(all []Tasks) Tasks {
	tasks := Tasks{}
	for _, some := range all {
		maps.Copy(tasks, some)
	}
	return tasks
}

// Work is one request as a task sees it.
type Work struct {
	// Input is that of the request.
	Input []byte
	// Shared is what Task.Decode returned of the shared data, nil if the request has none.
	Shared any
	// Note tells what the work is doing. A [*LimitError] holds the last text.
	Note func(text string)
	// Ask calls Request.Answer and returns its answer. An error has the text of the error of Answer.
	Ask func(question []byte) ([]byte, error)
}

// Request is work to do.
type Request struct {
	// Task is the name of the task.
	Task string
	// Tenant is whom the work is for. Children are shared between tenants fairly.
	Tenant string
	// Input is passed to the task.
	Input []byte
	// Shared is data that further requests need as well; nil if there is none.
	Shared *Shared
	// Answer answers what the work asks for. It runs in the parent, and gets the context of the request. Nil refuses all
	// questions.
	Answer func(ctx context.Context, question []byte) ([]byte, error)
}

// Shared is data that many requests share. A child keeps what was used last, so that it is neither sent nor decoded
// again.
type Shared struct {
	// Key identifies the data: equal keys mean equal data for the same task.
	Key string
	// Data returns the data. It is called only if the child does not have it.
	Data func() ([]byte, error)
}

// Runner does work.
type Runner interface {
	// Run returns the output of a task. The error is a [*TaskError] if the task failed, and a [*LimitError] if it was
	// ended.
	Run(ctx context.Context, request Request) ([]byte, error)
}

// Limits bound what one request may take. Zero fields take the default.
type Limits struct {
	// Memory is the address space that a child may take beyond what it has when it begins, in bytes. Default 512 MiB.
	Memory int64
	// CPU is the CPU time of one request, in whole seconds. Default 30 seconds.
	CPU time.Duration
	// Time is the time of one request, from the moment in which a child takes it up. Default 5 minutes.
	Time time.Duration
	// Output is the size of the output, and of each question, in bytes. Default 64 MiB.
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
	// Text is that of the error that the task returned.
	Text string
}

func (e *TaskError) Error() string { return e.Text }

// Limit is what ended a child.
type Limit string

// What ends a child.
const (
	LimitMemory Limit = "memory"
	LimitCPU    Limit = "cpu"
	LimitTime   Limit = "time"
	LimitOutput Limit = "output"
	// LimitCrash means that the child ended by itself, or by the hand of the operating system, and no limit is known to be
	// the cause.
	LimitCrash Limit = "crash"
)

// LimitError means that a request was ended.
type LimitError struct {
	// Limit is what ended it.
	Limit Limit
	// Limits are those of the request.
	Limits Limits
	// Doing is what the work noted last; empty if it noted nothing.
	Doing string
	// Detail says more about LimitCrash.
	Detail string
}

// Error says what was exceeded, and where.
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

// Remedy says what to do where the work itself cannot be changed: which flag of the manager raises the limit, if there
// is one.
func (e *LimitError) Remedy() string {
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

// ErrNoChild means that no child could begin with the request in time.
var ErrNoChild = errors.New("no renderer was free in time")
