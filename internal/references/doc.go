// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package references reads the Secrets, ConfigMaps and ServiceAccounts that HelmOps name, and makes access to
// registries and policies of signatures of them. Contents are read from the API server; the cache holds metadata only.
package references
