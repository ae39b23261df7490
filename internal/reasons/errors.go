// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package reasons

import (
	"errors"
)

// ErrDowngrade means that a reference with a range or a filter of tags now selects an older tag than before.
var ErrDowngrade = errors.New("downgrades are not allowed")

// ErrVersionMoved means that a chart repository replaced the archive of the version that is in use.
var ErrVersionMoved = errors.New("a version must not change")

// ErrRecord wraps an error of a write of a HelmOpRelease or a HelmOpRevision.
var ErrRecord = errors.New("cannot write an object of the HelmOp")

// UnresolvedError means that a reference to an artifact is not resolved. Reason and Message are for the condition.
type UnresolvedError struct {
	Reason, Message string
}

// Error implements error.
func (e *UnresolvedError) Error() string { return e.Message }

// InvalidVersionError means that a user requested a malformed version of Kubernetes. Its text is the text of Err.
type InvalidVersionError struct {
	Err error
}

// Error implements error.
func (e *InvalidVersionError) Error() string { return e.Err.Error() }
