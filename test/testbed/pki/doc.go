// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates of the test bed: a certificate authority
// per API server and registry, and what it signs. Nothing in it is meant for
// more than a test's lifetime.
package pki
