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
	// ErrInvalidReference means that a URL, tag, digest or range is malformed. A retry does not help.
	ErrInvalidReference = errors.New("invalid reference")
	// ErrInvalidAccess means that a setting of an Access cannot be used: the Docker config, the certificates, the proxy
	// or the cloud provider. A retry does not help.
	ErrInvalidAccess = errors.New("invalid access settings")
	// ErrAddressRefused means that the registry, the proxy or the target of a redirect has a local address, to which the
	// manager does not connect: see Options.RefuseLocal. A retry does not help.
	ErrAddressRefused = errors.New("address refused")
	// ErrUnauthorized means that the registry, its token service, the proxy or the cloud provider refused the
	// credentials, or that credentials are required and missing. It also means that the operator has blocked the
	// registry.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrNotFound means that the repository, the manifest or a blob does not exist.
	ErrNotFound = errors.New("not found")
	// ErrNoRepository means that the registry does not have the repository. Such an error is also an ErrNotFound. Some
	// registries send the same answer to callers without access.
	ErrNoRepository = errors.New("repository unknown")
	// ErrNoMatchingTag means that no tag of the repository matches the range and the filter.
	ErrNoMatchingTag = errors.New("no matching tag")
	// ErrTLS means that the registry's certificate is not trusted, or that the server does not use
	// TLS.
	ErrTLS = errors.New("TLS failure")
	// ErrUnreachable means that the connection failed, that no answer came in time, or that the registry answered with
	// a server error, see ErrServer. After several such failures in a row, requests to the host fail at once for a
	// short time. Error.RetryAfter has this time.
	ErrUnreachable = errors.New("registry unreachable")
	// ErrServer means that the registry answered with an internal error. It is also an ErrUnreachable, because a later
	// retry or another mirror helps in both cases.
	ErrServer error = serverError{}
	// ErrRateLimited means that the registry asked for fewer requests. It also means that the limits of Options would
	// delay the request beyond its deadline. See Error.RetryAfter.
	ErrRateLimited = errors.New("rate limited")
	// ErrTooLarge means that a manifest, a layer or a tag list exceeds its limit.
	ErrTooLarge = errors.New("too large")
	// ErrIntegrity means that content does not match its digest or size.
	ErrIntegrity = errors.New("content does not match its digest")
	// ErrUnsupported means that the reference is not an artifact with layers. For example, it is an image index.
	ErrUnsupported = errors.New("unsupported artifact")
	// ErrStore means that the content store on disk cannot be read or written.
	ErrStore = errors.New("content store failure")
	// ErrUnexpected means any other failure of a registry.
	ErrUnexpected = errors.New("unexpected answer")
)

// ErrNotStored means that the store does not have the content, or that the store dropped it because it was corrupt. It
// is not a value of Error.Kind.
var ErrNotStored = errors.New("not in the store")

type serverError struct{}

func (serverError) Error() string { return "registry failure" }

// Is reports whether target is ErrUnreachable. An ErrServer is also an ErrUnreachable.
func (serverError) Is(target error) bool { return target == ErrUnreachable }

// Error is the type of all failures. Its text is safe to show to users.
type Error struct {
	// Op is the operation, for example "resolve", "list tags", "get manifest" or "get blob".
	Op string
	// Subject is the URL, the reference or the digest of the operation. It contains no credentials.
	Subject string
	// Kind is one of the kinds above, or context.Canceled.
	Kind error
	// Detail describes the cause in a few words. May be empty.
	Detail string
	// Hint describes what the user can do. May be empty.
	Hint string
	// RetryAfter is the wait that the registry asked for, at most one hour. Zero means that the registry did not ask
	// for a wait.
	RetryAfter time.Duration
	// Timeout is true if the cause was a deadline.
	Timeout bool
	// Truncated is true if the response ended early: the content at the registry may be correct.
	Truncated bool
	// NoRepository is true if the registry does not have the repository.
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

// Unwrap returns the kind. It adds context.DeadlineExceeded if the cause was a deadline, and ErrNoRepository if the
// registry does not have the repository. It omits the network error, because its text may contain URLs with signatures.
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

// FromContext returns the error for the end of the caller's context.
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
