// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sources resolves and fetches artifacts from both kinds of source: OCI registries and Helm chart repositories.
// The scheme of a URL selects the kind. Packages oci and chartrepo do the work. Callers use a [Client] if they must
// support both kinds.
package sources
