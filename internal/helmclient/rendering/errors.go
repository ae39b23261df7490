// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"errors"
	"fmt"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// These are the kinds of errors. Compare errors with errors.Is.
var (
	// ErrInvalidValues means that the values do not meet the schema of the chart.
	ErrInvalidValues = errors.New("values do not match the chart's schema")
	// ErrInvalidChart means that the chart cannot be rendered or installed.
	ErrInvalidChart = errors.New("invalid chart")
	// ErrPostRender means that a PostRender cannot be applied to the rendered chart.
	ErrPostRender = errors.New("post-rendering failed")
	// ErrBusy means that the manager had no room for the task in time. Nothing was changed. Another try may succeed.
	ErrBusy = errors.New("the manager is busy")
	// ErrLimit means that a task exceeded a limit and was stopped.
	ErrLimit = errors.New("render limit exceeded")
)

// kinds holds the kinds of errors of tasks by their names in a failure.
var kinds = map[string]error{"values": ErrInvalidValues, "chart": ErrInvalidChart, "postRender": ErrPostRender}

// Error is an error with a kind. Its text does not repeat the kind.
type Error struct {
	// Kind is the error that errors.Is matches.
	Kind error
	// Text is the message.
	Text string
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Errorf returns an [*Error] whose text is formatted by fmt.Sprintf.
func Errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// failure is an error of a task, encoded for the engine.
type failure struct {
	// Kind is a key of kinds; empty for other errors.
	Kind string
	Text string
}

// maxFailure is the maximum length of the text of a failure, in bytes. A longer text is replaced and not cut: the
// engine removes whole secrets, and would not recognize a part of a secret.
const maxFailure = 64 << 10

// failureOf encodes an error. It returns nil for nil.
func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	if len(f.Text) > maxFailure {
		f.Text = fmt.Sprintf("the text of the error has %d bytes and is too long to be shown", len(f.Text))
	}
	var own *Error
	if errors.As(err, &own) {
		for name, kind := range kinds {
			if errors.Is(own.Kind, kind) {
				f.Kind = name
			}
		}
	}
	return f
}

// err decodes the error. It returns nil for nil.
func (f *failure) err() error {
	switch {
	case f == nil:
		return nil
	case kinds[f.Kind] != nil:
		return &Error{Kind: kinds[f.Kind], Text: f.Text}
	default:
		return errors.New(f.Text)
	}
}

// limitError adds a kind and a remedy to an error of a runner. It returns other errors unchanged.
func limitError(err error) error {
	var limited *sandbox.LimitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sandbox.ErrNoChild), errors.Is(err, sandbox.ErrNoMemory):
		return Errorf(ErrBusy, "%s: other charts occupy the renderers; the release is tried again soon", err)
	case !errors.As(err, &limited):
		return err
	}
	remedy := limited.Remedy()
	if limited.Limit == sandbox.LimitTime && limited.Remedies == nil {
		remedy += ", or the timeout of the action"
	}
	return Errorf(ErrLimit, "rendering the chart was stopped: %s; simplify the chart, or %s", err, remedy)
}
