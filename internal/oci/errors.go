// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"strings"
	"time"
)

// The kinds of failure. Match them with errors.Is.
var (
	// ErrInvalidReference says that a URL, tag, digest or range is malformed. No
	// retry helps.
	ErrInvalidReference = errors.New("invalid reference")
	// ErrInvalidAccess says that the Docker config, the certificates, the proxy or
	// the cloud provider of an Access cannot be used as given. No retry helps.
	ErrInvalidAccess = errors.New("invalid access settings")
	// ErrUnauthorized says that the registry, its token service, the proxy or the
	// cloud provider refused the credentials or asked for some when there were none,
	// or that the operator has blocked the registry.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrNotFound says that the repository, the manifest or a blob does not exist.
	ErrNotFound = errors.New("not found")
	// ErrNoRepository says, beside ErrNotFound, that the registry does not know the repository: some registries answer so
	// to whoever may not see it.
	ErrNoRepository = errors.New("repository unknown")
	// ErrNoMatchingTag says that the repository has no tag in the range.
	ErrNoMatchingTag = errors.New("no matching tag")
	// ErrTLS says that the registry's certificate is not trusted, or that the
	// other side does not speak TLS.
	ErrTLS = errors.New("TLS failure")
	// ErrUnreachable says that the registry did not answer in time, could not be
	// connected to, or answered with a server error, see ErrServer. It is returned without asking,
	// with Error.RetryAfter, for a short time after several such failures in a row.
	ErrUnreachable = errors.New("registry unreachable")
	// ErrServer says that the registry, which answers, failed by itself. It is an ErrUnreachable as well: the same
	// helps, which is to ask again later, or another mirror.
	ErrServer error = serverError{}
	// ErrRateLimited says that the registry asked for fewer requests, or that a
	// request would have had to wait beyond its deadline for Options' own limit. See
	// Error.RetryAfter.
	ErrRateLimited = errors.New("rate limited")
	// ErrTooLarge says that a manifest, a layer or a tag list is over its limit.
	ErrTooLarge = errors.New("too large")
	// ErrIntegrity says that content does not match its digest or size.
	ErrIntegrity = errors.New("content does not match its digest")
	// ErrUnsupported says that the reference names something that is not an
	// artifact with layers, an image index for example.
	ErrUnsupported = errors.New("unsupported artifact")
	// ErrStore says that the content store on disk cannot be read or written.
	ErrStore = errors.New("content store failure")
	// ErrUnexpected is everything else a registry may do.
	ErrUnexpected = errors.New("unexpected answer")
)

// serverError is the type of ErrServer.
type serverError struct{}

func (serverError) Error() string { return "registry failure" }

// Is reports whether a target is what else the error counts as.
func (serverError) Is(target error) bool { return target == ErrUnreachable }

// Error is what every function of this package returns on failure. It is safe
// to show to users.
type Error struct {
	// Op is what was tried: "resolve", "list tags", "get manifest", "get blob", …
	Op string
	// Subject is what it was tried on, without credentials.
	Subject string
	// Kind is one of the package's Err values, or context.Canceled.
	Kind error
	// Detail says what happened, in a few words. May be empty.
	Detail string
	// Hint says what to do. May be empty.
	Hint string
	// RetryAfter is how long the registry asked to wait, at most an hour; 0 when
	// it did not say.
	RetryAfter time.Duration

	// timeout marks failures caused by a deadline.
	timeout bool
	// noRepository marks those of a repository that the registry does not know.
	noRepository bool
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

// Unwrap returns the kind, context.DeadlineExceeded when a deadline was the
// cause, and ErrNoRepository when it was the repository. The underlying network error is left out because its text may
// hold URLs with signatures in them.
func (e *Error) Unwrap() []error {
	kinds := []error{e.Kind}
	if e.timeout {
		kinds = append(kinds, context.DeadlineExceeded)
	}
	if e.noRepository {
		kinds = append(kinds, ErrNoRepository)
	}
	return kinds
}

// contextError describes the end of the caller's own context.
func contextError(op, subject string, err error) *Error {
	if errors.Is(err, context.Canceled) {
		return &Error{Op: op, Subject: subject, Kind: context.Canceled}
	}
	return &Error{Op: op, Subject: subject, Kind: ErrUnreachable, Detail: "no response within the deadline", timeout: true}
}
