// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flight runs a call once for all concurrent callers that need its result.
//
// # Contract
//
//   - Callers with the same key and group share one run. A caller that gives up does not fail the others:
//     the run has its own deadline.
//   - A panic in the run becomes an error, because a panic in the goroutine of singleflight would end the
//     process. The error does not contain the text of the panic, which may contain secrets.
//   - Errors are *ocierr.Error values. The package does not cache results.
package flight
