// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// maxErrorLength is the longest text of an error.
const maxErrorLength = 512

// errRequest replaces an error whose text may quote a Secret.
var errRequest = errors.New("the request failed")

// ObjectError is the error of one object. Its text holds no value of the object. The functions of
// k8s.io/apimachinery/pkg/api/errors can classify errors of an API server. For a Secret, the text contains only the
// reason of the error.
type ObjectError struct {
	Ref inventory.Ref
	Err error
}

// Error implements error.
func (e *ObjectError) Error() string {
	return e.Ref.String() + ": " + e.Err.Error()
}

// Unwrap implements errors.Unwrap.
func (e *ObjectError) Unwrap() error {
	return e.Err
}

// isUnanswered reports whether a request had no response.
func isUnanswered(err error) bool {
	var request *url.Error
	return errors.As(err, &request)
}

// isStale reports whether the API server rejected a patch because the object was changed or replaced.
func isStale(err error) bool {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return true
	}
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) || answer.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(answer.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid"
	})
}

// describe returns an error whose text contains no values.
func describe(ref inventory.Ref, err error) *ObjectError {
	return &ObjectError{Ref: ref, Err: withoutValues(err, isSecret(ref.GroupVersionKind()))}
}

func withoutValues(err error, secret bool) error {
	var answer apierrors.APIStatus
	switch {
	case errors.As(err, &answer):
		return withoutValuesOf(answer.Status(), secret)
	case meta.IsNoMatchError(err):
		return fmt.Errorf("the cluster does not serve the kind: %w", err)
	case secret && !isUnanswered(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return errRequest
	default:
		return &bounded{err: err}
	}
}

// bounded is an error whose text has a limited length.
type bounded struct {
	err error
}

func (b *bounded) Error() string {
	return printable(b.err.Error(), maxErrorLength)
}

func (b *bounded) Unwrap() error {
	return b.err
}

// withoutValuesOf returns an error of an API server with the same reason and code, but without quoted content.
func withoutValuesOf(status metav1.Status, secret bool) error {
	safe := metav1.Status{
		Status: metav1.StatusFailure, Code: status.Code, Reason: status.Reason,
		Message: printable(status.Message, maxErrorLength),
	}
	if status.Details != nil {
		safe.Details = &metav1.StatusDetails{RetryAfterSeconds: status.Details.RetryAfterSeconds}
	}
	switch {
	case status.Reason == metav1.StatusReasonInvalid:
		safe.Message = printable(invalidFields(status.Details), maxErrorLength)
	case secret:
		safe.Message = answered(status)
	case status.Reason == metav1.StatusReasonForbidden, status.Reason == metav1.StatusReasonBadRequest:
		safe.Message = printable(refusal(status), maxErrorLength)
	}
	return &apierrors.StatusError{ErrStatus: safe}
}

func answered(status metav1.Status) string {
	return fmt.Sprintf("the API server responded with %d %s", status.Code, status.Reason)
}

// rejectingParty matches the part of an error that names who rejected the request: the whole text of the authorizer,
// and the names of webhooks, policies and quotas. The authorizer receives no content of objects, so its text is safe.
// The texts of the others may quote the object, with values of a Secret.
var rejectingParty = regexp.MustCompile(`User "[^"]*" cannot .*|admission webhook "[^"]*" denied the request|` +
	`ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request|exceeded quota: [^,]*|violates PodSecurity "[^"]*"`)

// refusal returns the name of the webhook, policy or quota that rejects an object, without its text.
func refusal(status metav1.Status) string {
	if who := rejectingParty.FindString(status.Message); who != "" {
		return answered(status) + ": " + who
	}
	return answered(status)
}

// invalidFields returns the paths of the fields that an API server rejects. The message of the API server would quote
// their values.
func invalidFields(details *metav1.StatusDetails) string {
	var fields []string
	var immutable bool
	if details != nil {
		for _, cause := range details.Causes {
			immutable = immutable || isImmutable(cause)
			if cause.Field != "" && !slices.Contains(fields, cause.Field) && len(fields) < maxPaths {
				fields = append(fields, cause.Field)
			}
		}
	}
	message := "the API server rejects the desired values"
	if len(fields) > 0 {
		message += " of " + strings.Join(fields, ", ")
	}
	if !immutable {
		return message
	}
	return message + ", which are immutable: delete the object to have it re-created from the manifest, " +
		"or exclude the fields with driftDetection.ignore"
}

// isImmutable reports whether a field was rejected because it is immutable.
func isImmutable(cause metav1.StatusCause) bool {
	for _, text := range []string{"immutable", "may not change", "may not be changed", "updates to", "cannot be changed",
		"may not be unset"} {
		if strings.Contains(cause.Message, text) {
			return true
		}
	}
	return false
}
