// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// These are the kinds of failures. Compare them with errors.Is. Errors of package ocierr about requests to the
// registry are returned unchanged.
var (
	// ErrInvalidPolicy means that the policy cannot be used. Retries do not help.
	ErrInvalidPolicy = errors.New("invalid verification policy")
	// ErrUnsigned means that the repository has no signature of the artifact.
	ErrUnsigned = errors.New("not signed")
	// ErrUntrusted means that there are signatures, but none satisfies the policy.
	ErrUntrusted = errors.New("not signed by a trusted signer")
	// ErrTrustRoot means that the trusted root of the public Sigstore is not available. Keyless signatures can then be
	// neither accepted nor refused.
	ErrTrustRoot = errors.New("no trusted root")
)

const (
	opVerify   = "verify"
	opValidate = "read the verification policy"
)

// invalidPolicy returns an ErrInvalidPolicy. Its detail must not contain key material.
func invalidPolicy(detail, hint string) error {
	return &ocierr.Error{Op: opValidate, Kind: ErrInvalidPolicy, Detail: detail, Hint: hint}
}
