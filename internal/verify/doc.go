// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify verifies the signatures of artifacts for the controllers. It uses the result in the status of the
// HelmOp if the same policy produced it. Otherwise it calls a [Verifier]. It does not write the status: callers must do
// this.
package verify
