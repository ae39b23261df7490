// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify verifies the signatures of artifacts. It uses the result in the status of the
// HelmOp if the same policy produced it.
package verify
