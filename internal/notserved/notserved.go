// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package notserved recognizes responses to requests for an object whose path an API server does not serve. After an
// upgrade of Kubernetes or a change of a CRD, a client may still use a version that the API server no longer serves.
// The response is 404, as for an object that does not exist, but the object may exist in another version.
package notserved

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Is reports whether the error of a request for one object means that the API server does not serve the path. Such a
// response contains nothing about the object.
func Is(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
