// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package references reads the Secrets, ConfigMaps and ServiceAccounts that HelmOps refer to, and
// derives the access to registries and the signature policies. It reads contents from the API
// server; the cache holds metadata only.
package references
