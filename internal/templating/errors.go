// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"errors"
	"fmt"
	"strings"
)

// Reason is the class of an Error.
type Reason string

const (
	// ReasonInvalidTemplate means that a template or a targetPath does not parse, so the rendering fails for every
	// Cluster. Only Compile returns it.
	ReasonInvalidTemplate Reason = "InvalidTemplate"

	// ReasonInvalidValues means that values cannot be read. They are not YAML, not a map or too large, or a key has two
	// values.
	ReasonInvalidValues Reason = "InvalidValues"

	// ReasonMissingKey means that a template reads a key that this Cluster does not have.
	ReasonMissingKey Reason = "MissingKey"

	// ReasonRenderFailed means that a template fails for this Cluster for another reason.
	ReasonRenderFailed Reason = "RenderFailed"

	// ReasonLimitExceeded means that a template or its output exceeds a limit of this package.
	ReasonLimitExceeded Reason = "LimitExceeded"

	// ReasonInvalidName means that Helm or Kubernetes would refuse a release name, a namespace or the name of an
	// object.
	ReasonInvalidName Reason = "InvalidName"
)

// Error is the reason why a Program cannot be compiled or rendered. It contains no data of a Cluster or a Secret.
type Error struct {
	// Reason is the class of the error.
	Reason Reason

	// Field is the field of the HelmOp: spec.release.name, spec.release.namespace, spec.values, spec.valuesTemplate,
	// spec.valuesFrom[i], spec.valuesFrom[i].name, spec.valuesFrom[i].targetPath or spec.postRender. For an override,
	// it is one of the last six under spec.overrides[i].
	Field string

	// Key is the path in values or postRender, as "installation.cni" or "pools[0].cidr"; empty for other fields.
	Key string

	// Origin is the Origin of the ValuesSource, or "override" and the name of the Override; empty for other fields.
	Origin string

	// Line is the line in the template or document, from 1; 0 if it is not known. With InOutput, it is a line of the
	// YAML that a template yields.
	Line     int
	InOutput bool

	// Cause is a sentence without data.
	Cause string
}

// Error returns the place and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Field)
	if e.Key != "" {
		if !strings.HasPrefix(e.Key, "[") {
			b.WriteByte('.')
		}
		b.WriteString(e.Key)
	}
	if e.Origin != "" {
		fmt.Fprintf(&b, " (%s)", e.Origin)
	}
	switch {
	case e.Line > 0 && e.InOutput:
		fmt.Fprintf(&b, " line %d of the YAML it yields", e.Line)
	case e.Line > 0:
		fmt.Fprintf(&b, " line %d", e.Line)
	}
	b.WriteString(": ")
	b.WriteString(e.Cause)
	return b.String()
}

// place is the position of a template or document in a HelmOp.
type place struct {
	field, key, origin string
}

func (p place) errorf(reason Reason, line int, format string, args ...any) *Error {
	return &Error{
		Reason: reason, Field: p.field, Key: p.key, Origin: p.origin,
		Line: line, Cause: fmt.Sprintf(format, args...),
	}
}

// at adds the place to err if err is a fault of this package. It drops the text of other errors.
func (p place) at(err error, fallback Reason) *Error {
	var f *fault
	if errors.As(err, &f) {
		e := p.errorf(f.reason, f.line, "%s", f.cause)
		e.InOutput = f.inOutput
		return e
	}
	return p.errorf(fallback, 0, "cannot be read")
}

// fault is an error without a place. Its cause is safe to show: code that creates a fault must not include data.
type fault struct {
	reason   Reason
	cause    string
	line     int
	inOutput bool
}

func (f *fault) Error() string { return f.cause }

func faultf(reason Reason, format string, args ...any) *fault {
	return &fault{reason: reason, cause: fmt.Sprintf(format, args...)}
}
