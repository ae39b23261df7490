// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry runs OCI registries as tests need them: the CNCF Distribution
// registry as a local process, or a small one in this process that also knows the
// referrers API; with TLS from an own certificate authority, client certificates,
// passwords or a token service.
//
// Clients speak to a front on the registry's address: a reverse proxy that
// records each request and can be told to fail. What Push* sends goes to
// the registry itself, neither recorded nor failing. Faults and counts can be
// limited to a repository, so that one registry serves many tests at a time.
package registry
