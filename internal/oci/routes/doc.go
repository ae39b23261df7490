// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package routes decides which hosts serve a repository: the registry in its URL, mirrors of it, or its
// replacement. It also knows how hosts and repositories are spelled.
//
// # Contract
//
//   - The package makes no request and reads no file. Its input is the text of a registries.conf of version 2, as
//     described in containers-registries.conf(5).
//   - Rules match all spellings of a host that ParseURL accepts, so that no spelling avoids a blocked registry.
//   - The last route of a repository is always the registry itself, or its replacement.
//   - Certificates are always verified: insecure means plain HTTP.
//   - Tag lists count as requests by name, referrers as requests by digest.
//   - Settings for short names and storage are ignored. Credential helpers, unknown keys and version 1 are
//     errors that name the key.
package routes
