// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// closeness orders refusals by the number of checks that the signature passed. Messages show the refusal with the
// greatest closeness.
type closeness int

const (
	unreadable closeness = iota
	wrongSigner
	wrongProof
	wrongTarget
	wrongIdentity
)

// refusal is the reason why a signature does not count.
type refusal struct {
	close closeness
	why   string
}

func refuse(how closeness, format string, args ...any) *refusal {
	return &refusal{close: how, why: clip(fmt.Sprintf(format, args...))}
}

// refusePanic is deferred in functions in which libraries read untrusted data. A panic refuses the signature instead of
// ending the process.
func refusePanic(signers *[]string, refused **refusal) {
	if recover() != nil {
		*signers, *refused = nil, refuse(unreadable, "it is malformed")
	}
}

// errorOfPanic is deferred in goroutines that have no other recover. It turns a panic into an
// ocierr.ErrUnexpected. The value of the panic may contain untrusted text, so the error only contains
// the text of the runtime's own errors.
func errorOfPanic(subject string, err *error) {
	caught := recover()
	if caught == nil {
		return
	}
	detail := fmt.Sprintf("internal error: panic with a %T", caught)
	if fault, ok := caught.(runtime.Error); ok {
		detail = "internal error: " + clip(fault.Error())
	}
	*err = &ocierr.Error{Op: opVerify, Subject: subject, Kind: ocierr.ErrUnexpected, Detail: detail,
		Hint: "report this as a bug of HelmOp"}
}

// findings are the results of the checks while no valid signature was found.
type findings struct {
	signatures   int
	attestations int
	more         bool
	best         *refusal
	// unavailable is the first error that prevented a check.
	unavailable error
}

// recordRefusal records a signature that does not count.
func (f *findings) recordRefusal(r *refusal) {
	if f.best == nil || r.close > f.best.close {
		f.best = r
	}
}

// recordError records that something could not be checked; the first error is kept.
func (f *findings) recordError(err error) {
	if f.unavailable == nil {
		f.unavailable = err
	}
}

// error returns the error for the findings. unavailable takes precedence, because signatures that were not checked may
// be valid.
func (f *findings) error(subject string, provider Provider) error {
	if f.unavailable != nil {
		return f.unavailable
	}
	out := &ocierr.Error{Op: opVerify, Subject: subject}
	if f.signatures == 0 && !f.more {
		out.Kind = ErrUnsigned
		out.Detail = fmt.Sprintf("the repository has no %s signature for it", provider)
		out.Hint = fmt.Sprintf("sign it with %s; copy the signatures, too, when you copy an artifact to another repository",
			provider)
		if f.attestations > 0 {
			out.Detail += fmt.Sprintf(", only other attestations (%d)", f.attestations)
		}
		return out
	}
	out.Kind = ErrUntrusted
	switch f.signatures {
	case 0:
		out.Detail = fmt.Sprintf("none of the checked manifests is a %s signature for it", provider)
	case 1:
		out.Detail = "its signature does not satisfy the policy"
	default:
		out.Detail = fmt.Sprintf("none of %d signatures satisfies the policy; the closest signature", f.signatures)
	}
	if f.best != nil {
		out.Detail += ": " + f.best.why
	}
	out.Hint = "if you trust that signer, add it to the policy"
	if f.more {
		out.Hint = "the artifact has more referrers than HelmOp checks; remove the referrers that are not needed"
	}
	return out
}

// isBroken reports whether an error of package oci concerns only one broken signature. Other errors mean that the
// registry does not answer, or that a connection broke.
func isBroken(err error) bool {
	var failure *ocierr.Error
	if errors.As(err, &failure) && failure.Truncated {
		return false
	}
	for _, kind := range []error{ocierr.ErrNotFound, ocierr.ErrTooLarge, ocierr.ErrIntegrity, ocierr.ErrUnsupported,
		ocierr.ErrInvalidReference} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// unreadableBy returns the refusal of a signature that cannot be read.
func unreadableBy(err error) *refusal {
	var failure *ocierr.Error
	if errors.As(err, &failure) {
		return refuse(unreadable, "it cannot be read: %s: %s", failure.Kind, failure.Detail)
	}
	return refuse(unreadable, "it cannot be read")
}
