// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package references reads the Secrets, ConfigMaps and ServiceAccounts to which HelmOps refer. From them, it makes the
// access settings for registries and the signature policies. It reads contents from the API server, because the cache
// holds only metadata. It does not render values and does not watch objects. Callers must not change the returned
// contents: the package caches them.
package references
