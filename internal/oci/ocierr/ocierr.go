// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ocierr

import (
	"context"
	"errors"
	"strings"
	"time"
)

// The kinds of failure. Compare them with errors.Is.
var (
	// ErrInvalidReference means that a URL, tag, digest or range is malformed. Retries do not help.
	ErrInvalidReference = errors.New("invalid reference")
	// ErrInvalidAccess means that the Docker config, the certificates, the proxy or the cloud provider
	// of an Access cannot be used. Retries do not help.
	ErrInvalidAccess = errors.New("invalid access settings")
	// ErrUnauthorized means that the registry, its token service, the proxy or the cloud provider
	// refused the credentials, or requires credentials and there are none. It also means that the
	// operator has blocked the registry.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrNotFound means that the repository, the manifest or a blob does not exist.
	ErrNotFound = errors.New("not found")
	// ErrNoRepository means, in addition to ErrNotFound, that the registry does not have the
	// repository. Some registries send the same answer to callers without access.
	ErrNoRepository = errors.New("repository unknown")
	// ErrNoMatchingTag means that no tag of the repository matches the range and the filter.
	ErrNoMatchingTag = errors.New("no matching tag")
	// ErrTLS means that the registry's certificate is not trusted, or that the server does not use
	// TLS.
	ErrTLS = errors.New("TLS failure")
	// ErrUnreachable means that the connection failed, that no answer came in time, or that the
	// registry answered with a server error, see ErrServer. After several such failures in a row, it
	// is returned for a short time without a request, with Error.RetryAfter.
	ErrUnreachable = errors.New("registry unreachable")
	// ErrServer means that the registry answered with an internal error. It is also an ErrUnreachable,
	// because a later retry or another mirror helps against both.
	ErrServer error = serverError{}
	// ErrRateLimited means that the registry asked for fewer requests, or that the limits of Options
	// would delay a request beyond its deadline. See Error.RetryAfter.
	ErrRateLimited = errors.New("rate limited")
	// ErrTooLarge means that a manifest, a layer or a tag list exceeds its limit.
	ErrTooLarge = errors.New("too large")
	// ErrIntegrity means that content does not match its digest or size.
	ErrIntegrity = errors.New("content does not match its digest")
	// ErrUnsupported means that the reference does not name an artifact with layers, but for example
	// an image index.
	ErrUnsupported = errors.New("unsupported artifact")
	// ErrStore means that the content store on disk cannot be read or written.
	ErrStore = errors.New("content store failure")
	// ErrUnexpected means any other failure of a registry.
	ErrUnexpected = errors.New("unexpected answer")
)

// ErrNotStored means that the store does not have the content, or has dropped it because it was
// corrupt. It is not the kind of an Error.
var ErrNotStored = errors.New("not in the store")

// serverError is the type of ErrServer.
type serverError struct{}

func (serverError) Error() string { return "registry failure" }

// Is reports whether target is ErrUnreachable, which an ErrServer also counts as.
func (serverError) Is(target error) bool { return target == ErrUnreachable }

// Error is the type of all failures. Its text is safe to show to users.
type Error struct {
	// Op is the operation: "resolve", "list tags", "get manifest", "get blob", …
	Op string
	// Subject is the URL, reference or digest of the operation, without credentials.
	Subject string
	// Kind is one of the kinds above, or context.Canceled.
	Kind error
	// Detail describes the cause in a few words. May be empty.
	Detail string
	// Hint describes what the user can do. May be empty.
	Hint string
	// RetryAfter is how long the registry asked to wait, at most one hour; 0 if it did not ask.
	RetryAfter time.Duration
	// Timeout is set for failures caused by a deadline.
	Timeout bool
	// NoRepository is set if the registry does not have the repository.
	NoRepository bool
}

// Error returns "op subject: kind: detail; hint".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Subject != "" {
		b.WriteString(" " + e.Subject)
	}
	b.WriteString(": " + e.Kind.Error())
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the kind, context.DeadlineExceeded if a deadline was the cause, and
// ErrNoRepository if the registry does not have the repository. It omits the underlying network
// error, whose text may contain URLs with signatures.
func (e *Error) Unwrap() []error {
	kinds := []error{e.Kind}
	if e.Timeout {
		kinds = append(kinds, context.DeadlineExceeded)
	}
	if e.NoRepository {
		kinds = append(kinds, ErrNoRepository)
	}
	return kinds
}

// FromContext returns the error for the end of the caller's own context.
func FromContext(op, subject string, err error) *Error {
	if errors.Is(err, context.Canceled) {
		return &Error{Op: op, Subject: subject, Kind: context.Canceled}
	}
	return &Error{Op: op, Subject: subject, Kind: ErrUnreachable, Detail: "no response within the deadline", Timeout: true}
}

// NoRoom returns the error for too many concurrent pulls.
func NoRoom(op, subject string) *Error {
	return &Error{Op: op, Subject: subject, Kind: ErrRateLimited, Detail: "the limit of concurrent pulls is reached",
		Timeout: true}
}
