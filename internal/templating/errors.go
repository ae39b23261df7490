// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"errors"
	"fmt"
	"strings"
)

// Reason tells whose fault an Error is.
type Reason string

const (
	// ReasonInvalidTemplate is a template or a targetPath that fails for every Cluster: it does not parse. Only Compile
	// returns it.
	ReasonInvalidTemplate Reason = "InvalidTemplate"

	// ReasonInvalidValues are values that cannot be read: not YAML, not a map, too large, two values for a key.
	ReasonInvalidValues Reason = "InvalidValues"

	// ReasonMissingKey is a template that reads what this Cluster does not have.
	ReasonMissingKey Reason = "MissingKey"

	// ReasonRenderFailed is a template that fails for this Cluster for any other cause.
	ReasonRenderFailed Reason = "RenderFailed"

	// ReasonLimitExceeded is a template, or what it yields, above one of the bounds of this package.
	ReasonLimitExceeded Reason = "LimitExceeded"

	// ReasonInvalidName is a release name, a namespace or the name of an object that Helm or Kubernetes would refuse.
	ReasonInvalidName Reason = "InvalidName"
)

// Error is why a Program cannot be compiled or rendered. It quotes no data: neither of a Cluster nor of a Secret.
type Error struct {
	// Reason tells whose fault it is.
	Reason Reason

	// Field of the HelmOp: spec.release.name, spec.release.namespace, spec.values, spec.valuesTemplate,
	// spec.valuesFrom[i], spec.valuesFrom[i].name, spec.valuesFrom[i].targetPath, spec.postRender; or one of the last five
	// below spec.overrides[i].
	Field string

	// Key is the path below values or postRender, as "installation.cni" or "pools[0].cidr"; empty for the other fields.
	Key string

	// Origin is the ValuesSource's Origin, or "override" and the name of the Override; empty for the other fields.
	Origin string

	// Line in the template or document, from 1; 0 where it is not known. InOutput tells that it counts in the
	// YAML that a template yielded.
	Line     int
	InOutput bool

	// Cause is a sentence without data in it.
	Cause string
}

// Error gives the place, then the cause.
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

// place is where in a HelmOp a template or document stands.
type place struct {
	field, key, origin string
}

func (p place) errorf(reason Reason, line int, format string, args ...any) *Error {
	return &Error{
		Reason: reason, Field: p.field, Key: p.key, Origin: p.origin,
		Line: line, Cause: fmt.Sprintf(format, args...),
	}
}

// at gives err, if it is a fault of this package, its place; other errors become a cause that tells nothing.
func (p place) at(err error, fallback Reason) *Error {
	var f *fault
	if errors.As(err, &f) {
		e := p.errorf(f.reason, f.line, "%s", f.cause)
		e.InOutput = f.inOutput
		return e
	}
	return p.errorf(fallback, 0, "cannot be read")
}

// fault is an error without a place. Its cause is safe to show: whoever makes one puts no data in it.
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
