// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify verifies the signatures of artifacts, unless the status of a HelmOp says that this was done by the
// same policy.
package verify
