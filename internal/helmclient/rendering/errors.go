// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"errors"
	"fmt"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// The kinds of errors; match them with errors.Is.
var (
	// ErrInvalidValues means that the values do not meet the schema of the chart.
	ErrInvalidValues = errors.New("values do not meet the chart's schema")
	// ErrInvalidChart means that the chart cannot be rendered, or cannot be installed.
	ErrInvalidChart = errors.New("invalid chart")
	// ErrPostRender means that the patches cannot be applied to the rendered chart.
	ErrPostRender = errors.New("post-rendering failed")
	// ErrTimeout means that there was no time to render.
	ErrTimeout = errors.New("timed out")
	// ErrLimit means that the chart took more than it may, and was ended.
	ErrLimit = errors.New("render limit exceeded")
)

// kinds are those that cross the boundary of a task, by the names that they have there.
var kinds = map[string]error{"values": ErrInvalidValues, "chart": ErrInvalidChart, "postRender": ErrPostRender}

// Error is an error of a kind. Its text does not repeat the kind.
type Error struct {
	// Kind is what errors.Is matches.
	Kind error
	// Text says what went wrong.
	Text string
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Errorf returns an [*Error]. The text is formatted as by fmt.Sprintf.
func Errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// failure is an error of a task on its way to the engine.
type failure struct {
	// Kind is one of the names of kinds, or empty.
	Kind string
	Text string
}

// maxFailure bounds the text of an error. It is never cut: the rest could hold a part of a secret that nothing recognises.
const maxFailure = 64 << 10

// failureOf returns nil if there is no error.
func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	if len(f.Text) > maxFailure {
		f.Text = fmt.Sprintf("the error has a text of %d bytes, which is too long to be shown", len(f.Text))
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

// limitError makes an error of the kind ErrLimit of what ended a task. Others stay.
func limitError(err error) error {
	var limited *sandbox.LimitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sandbox.ErrNoChild):
		return Errorf(ErrTimeout, "%s: other charts take long to render; raise the timeout of the action", err)
	case !errors.As(err, &limited):
		return err
	}
	remedy := limited.Remedy()
	if limited.Limit == sandbox.LimitTime {
		remedy += ", or the timeout of the action"
	}
	return Errorf(ErrLimit, "rendering the chart was ended, for %s: have the chart do less, or %s", err, remedy)
}
