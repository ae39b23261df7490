// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry runs OCI registries for tests. Each is the CNCF Distribution registry as a local process, or a small
// registry in this process that also has the referrers API. They serve TLS from their own certificate authority, and
// can require client certificates, passwords or tokens of a token service.
//
// Clients connect to a front at the registry's address: a reverse proxy that records each request and can fail on
// demand. The Push* methods send directly to the registry: their requests are not recorded and do not fail. Faults and
// counts can be limited to a repository, so that one registry serves many tests at once.
package registry
