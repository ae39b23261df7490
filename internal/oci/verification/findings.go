// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// closeness orders reasons for refusing a signature by how near it came: the
// reason of the nearest is the one worth telling.
type closeness int

const (
	unreadable closeness = iota
	wrongSigner
	wrongProof
	wrongTarget
	wrongIdentity
)

// refusal is why a signature does not count.
type refusal struct {
	close closeness
	why   string
}

func refuse(how closeness, format string, args ...any) *refusal {
	return &refusal{close: how, why: clip(fmt.Sprintf(format, args...))}
}

// refusePanic is deferred where libraries read what strangers wrote: one that
// panics refuses the signature, and does not end the process.
func refusePanic(signers *[]string, refused **refusal) {
	if recover() != nil {
		*signers, *refused = nil, refuse(unreadable, "it is malformed")
	}
}

// errorOfPanic is deferred in work of goroutines, where nobody else recovers: a
// panic ends the work with an oci.ErrUnexpected, and not the process. What was
// panicked with may be a stranger's text, so only the runtime's own is told.
func errorOfPanic(subject string, err *error) {
	caught := recover()
	if caught == nil {
		return
	}
	detail := fmt.Sprintf("internal error: panic with a %T", caught)
	if fault, ok := caught.(runtime.Error); ok {
		detail = "a defect of the program ended it: " + clip(fault.Error())
	}
	*err = &oci.Error{Op: opVerify, Subject: subject, Kind: oci.ErrUnexpected, Detail: detail,
		Hint: "report this as a bug of HelmOp"}
}

// findings are what was seen while no good signature was found.
type findings struct {
	signatures   int
	attestations int
	more         bool
	best         *refusal
	// unavailable is why something could not be looked at.
	unavailable error
}

// refused notes a signature that does not count.
func (f *findings) refused(r *refusal) {
	if f.best == nil || r.close > f.best.close {
		f.best = r
	}
}

// missed notes that something could not be looked at; the first reason is told.
func (f *findings) missed(err error) {
	if f.unavailable == nil {
		f.unavailable = err
	}
}

// error says what was found. What could not be looked at might have been good,
// so it comes first.
func (f *findings) error(subject string, provider Provider) error {
	if f.unavailable != nil {
		return f.unavailable
	}
	out := &oci.Error{Op: opVerify, Subject: subject}
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
		out.Detail = fmt.Sprintf("none of %d signatures satisfies the policy; the closest", f.signatures)
	}
	if f.best != nil {
		out.Detail += ": " + f.best.why
	}
	out.Hint = "if you trust that signer, add it to the policy"
	if f.more {
		out.Hint = "it has more referrers than are checked; remove those that are not needed"
	}
	return out
}

// isBroken tells errors of package oci that say something about one signature,
// which is broken, from those that say that the registry cannot be asked.
func isBroken(err error) bool {
	for _, kind := range []error{oci.ErrNotFound, oci.ErrTooLarge, oci.ErrIntegrity, oci.ErrUnsupported,
		oci.ErrInvalidReference} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// brokenBy says what is wrong with a signature that cannot be read.
func brokenBy(err error) *refusal {
	var failure *oci.Error
	if errors.As(err, &failure) {
		return refuse(unreadable, "it cannot be read: %s: %s", failure.Kind, failure.Detail)
	}
	return refuse(unreadable, "it cannot be read")
}
