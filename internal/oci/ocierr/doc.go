// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ocierr defines the errors of package oci and of the packages below it. It knows the kinds of failures and how
// to show them to users. It sends no request and does not depend on a protocol library: package endpoint converts the
// errors of the protocol library.
//
// # Contract
//
//   - Every failure of a request to a registry, of a credential, or of the content store is an *Error. ErrNotStored is
//     the exception: it means that content is missing, which is not a failure.
//   - Callers compare the kind with errors.Is, and read Error.RetryAfter with errors.As.
//   - Error.Error is safe to show to users. Code that creates an Error must call SafeText for the text of a library:
//     the text may contain signatures, tokens and account names.
package ocierr
