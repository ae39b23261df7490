// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sources resolves and fetches artifacts of both kinds of source: OCI registries, and Helm chart repositories.
// The scheme of a URL decides between them. Callers use a [Client] where they need either kind.
package sources
