// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// The kinds of failure. Match them with errors.Is. What package oci reports when
// a registry cannot be asked is passed on as it is.
var (
	// ErrInvalidPolicy says that the policy cannot be used. No retry helps.
	ErrInvalidPolicy = errors.New("invalid verification policy")
	// ErrUnsigned says that the repository has no signature of the artifact.
	ErrUnsigned = errors.New("not signed")
	// ErrUntrusted says that there are signatures, none of which satisfies the
	// policy.
	ErrUntrusted = errors.New("not signed by a trusted signer")
	// ErrTrustRoot says that the public Sigstore's trusted root could not be had,
	// so that keyless signatures can be neither believed nor refused.
	ErrTrustRoot = errors.New("no trusted root")
)

const (
	opVerify   = "verify"
	opValidate = "read the verification policy"
)

// invalidPolicy is an ErrInvalidPolicy. Details never repeat key material.
func invalidPolicy(detail, hint string) error {
	return &oci.Error{Op: opValidate, Kind: ErrInvalidPolicy, Detail: detail, Hint: hint}
}
