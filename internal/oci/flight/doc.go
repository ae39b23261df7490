// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flight runs a call once for all concurrent callers that need its result. A call is a function of the caller.
// The package does not cache results.
//
// # Contract
//
//   - Callers with the same group and key share one run. The run has its own deadline. If a caller stops waiting, the
//     other callers still get the result.
//   - A panic in the run becomes an error, because a panic in a goroutine of singleflight would end the process. The
//     error does not contain the text of the panic, which may contain secrets.
//   - Errors are *ocierr.Error values.
//   - The caller must put all inputs that change the result into the key.
package flight
