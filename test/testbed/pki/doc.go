// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki creates the certificates of the test bed: a certificate authority for each API server and registry, and
// the certificates that it signs. All of them are for tests only.
package pki
