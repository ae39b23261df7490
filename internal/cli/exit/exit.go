// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exit maps the errors of commands to exit codes. The codes are stable, because scripts depend on them.
//
// The package does not print errors and does not end the process: package cli does. Commands must wrap the errors of
// their requests, because this package recognizes only wrapped errors.
package exit

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// The exit codes. The help text of the program describes them for users.
const (
	Done        = 0
	Failed      = 1
	Usage       = 2
	NotFound    = 3
	Denied      = 4
	Unreachable = 5
)

// IsQuiet reports whether an error has no message for the user.
func IsQuiet(err error) bool {
	return errors.Is(err, kube.ErrUnhealthy) || errors.Is(err, kube.ErrDiffers)
}

// Code returns the exit code of an error.
func Code(err error) int {
	var (
		response *errcode.ErrorResponse
		status   apierrors.APIStatus
		network  *url.Error
	)
	switch {
	case err == nil:
		return Done
	case errors.Is(err, kube.ErrUsage):
		return Usage
	case IsQuiet(err):
		return Failed
	case errors.Is(err, errdef.ErrNotFound):
		return NotFound
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return Denied
	case errors.As(err, &response):
		if code, ok := codesByStatus[response.StatusCode]; ok {
			return code
		}
	case errors.As(err, &status):
		if code, ok := codesByStatus[int(status.Status().Code)]; ok {
			return code
		}
	// A request that the user interrupted says nothing about the API server.
	case errors.As(err, &network) && !errors.Is(network, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Unreachable
	}
	if errors.Is(err, kube.ErrResultFailed) {
		return Usage
	}
	return Failed
}

// codesByStatus maps HTTP status codes of registries and API servers to exit codes.
var codesByStatus = map[int]int{
	http.StatusUnauthorized:       Denied,
	http.StatusForbidden:          Denied,
	http.StatusNotFound:           NotFound,
	http.StatusTooManyRequests:    Unreachable,
	http.StatusBadGateway:         Unreachable,
	http.StatusServiceUnavailable: Unreachable,
	http.StatusGatewayTimeout:     Unreachable,
}
