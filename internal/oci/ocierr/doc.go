// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ocierr defines the errors of package oci and of the packages below it.
//
// # Contract
//
//   - Every failure of a request to a registry, of a credential and of the content store is an *Error.
//     The exception is ErrNotStored, which reports missing content and not a failure.
//   - Callers compare the kind with errors.Is, and read Error.RetryAfter with errors.As.
//   - Error.Error is safe to show to users. Code that builds an Error must not put text of a library into
//     it without SafeText: the text may contain signatures, tokens and account names.
//   - The package makes no request and depends on no protocol library.
package ocierr
