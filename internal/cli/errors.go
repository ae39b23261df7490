// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// errDiffers makes "diff" exit with 1 if there are differences, like "kubectl diff".
var errDiffers = errors.New("the artifacts differ")

// usageError is an error in the arguments.
type usageError struct{ error }

// Unwrap lets errors.Is and errors.As look into it.
func (e usageError) Unwrap() error { return e.error }

// diffError is a failure of "diff". It must not exit with 1, which means that there are differences.
type diffError struct{ error }

// Unwrap lets errors.Is and errors.As look into it.
func (e diffError) Unwrap() error { return e.error }

// isQuiet is true for errors without a message.
func isQuiet(err error) bool {
	return errors.Is(err, errDiffers) || errors.Is(err, kube.ErrUnhealthy) || errors.Is(err, kube.ErrDiffers)
}

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	var (
		usage    usageError
		diff     diffError
		response *errcode.ErrorResponse
		status   apierrors.APIStatus
		network  *url.Error
	)
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage), errors.Is(err, kube.ErrUsage):
		return exitUsage
	case isQuiet(err):
		return exitFailed
	case errors.Is(err, errdef.ErrNotFound):
		return exitNotFound
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return exitDenied
	case errors.As(err, &response):
		if code, ok := codesByStatus[response.StatusCode]; ok {
			return code
		}
	case errors.As(err, &status):
		if code, ok := codesByStatus[int(status.Status().Code)]; ok {
			return code
		}
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable
	}
	if errors.As(err, &diff) || errors.Is(err, kube.ErrResultFailed) {
		return exitUsage
	}
	return exitFailed
}

// codesByStatus maps HTTP status codes of registries and API servers to exit codes.
var codesByStatus = map[int]int{
	http.StatusUnauthorized:       exitDenied,
	http.StatusForbidden:          exitDenied,
	http.StatusNotFound:           exitNotFound,
	http.StatusTooManyRequests:    exitUnreachable,
	http.StatusBadGateway:         exitUnreachable,
	http.StatusServiceUnavailable: exitUnreachable,
	http.StatusGatewayTimeout:     exitUnreachable,
}
