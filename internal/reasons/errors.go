// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package reasons

import (
	"errors"
)

// ErrDowngrade says that a reference which chooses among tags stands for an older one than before.
var ErrDowngrade = errors.New("downgrades are not allowed")

// ErrRecord wraps an error of writing a HelmOpRelease.
var ErrRecord = errors.New("cannot write the HelmOpRelease")

// UnresolvedError says that it is not known what a reference stands for.
type UnresolvedError struct {
	Reason, Message string
}

// Error implements error.
func (e *UnresolvedError) Error() string { return e.Message }
