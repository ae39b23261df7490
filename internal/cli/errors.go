// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitDenied      = 4
	exitUnreachable = 5
)

// errDiffers ends "diff" where there are differences, as that of kubectl does.
var errDiffers = errors.New("the artifacts differ")

// usageError is an error in the arguments.
type usageError struct{ error }

// Unwrap lets errors.Is and errors.As look into it.
func (e usageError) Unwrap() error { return e.error }

// diffError is any failure of "diff": 1 says that there are differences.
type diffError struct{ error }

// Unwrap lets errors.Is and errors.As look into it.
func (e diffError) Unwrap() error { return e.error }

// isQuiet tells errors that need no message.
func isQuiet(err error) bool { return errors.Is(err, errDiffers) }

// exitCode is the exit code for an error.
func exitCode(err error) int {
	var (
		usage    usageError
		diff     diffError
		response *errcode.ErrorResponse
		network  *url.Error
	)
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errDiffers):
		return exitFailed
	case errors.Is(err, errdef.ErrNotFound):
		return exitNotFound
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return exitDenied
	case errors.As(err, &response):
		if code, ok := codesByStatus[response.StatusCode]; ok {
			return code
		}
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable
	}
	if errors.As(err, &diff) {
		return exitUsage
	}
	return exitFailed
}

// codesByStatus are the exit codes for what a registry answers.
var codesByStatus = map[int]int{
	http.StatusUnauthorized:       exitDenied,
	http.StatusForbidden:          exitDenied,
	http.StatusNotFound:           exitNotFound,
	http.StatusBadGateway:         exitUnreachable,
	http.StatusServiceUnavailable: exitUnreachable,
	http.StatusGatewayTimeout:     exitUnreachable,
}
