// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package routes decides which hosts serve a repository: the registry in the URL, mirrors of the registry, or a
// replacement. It also parses URLs and compares names of hosts and repositories. The format is registries.conf version
// 2, see containers-registries.conf(5). The package sends no request and reads no file: package endpoint does both.
//
// # Contract
//
//   - Rules match all spellings of a host that ParseURL accepts. A blocked registry is therefore blocked in all
//     spellings.
//   - The last route of a repository is always the registry itself, or its replacement.
//   - Certificates are always verified. "insecure" means plain HTTP.
//   - A list of tags counts as a request by name. A list of referrers counts as a request by digest.
//   - Settings for short names and storage are ignored. Credential helpers, unknown keys and version 1 of the format
//     are errors. The error names the key.
package routes
