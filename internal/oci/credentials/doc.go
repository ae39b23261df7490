// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials finds the credential for a registry. It looks in the Docker configs of an Access, at a cloud
// provider, and in the Docker config of the manager. The package does not send requests. The caller provides a
// CloudLogin, which logs in to cloud providers, and package endpoint sends the credentials.
//
// # Contract
//
//   - The package runs no program. A credential helper in a Docker config is an error.
//   - If the author of the Access may be able to read the requests on a route, the manager does not use its own
//     credentials and its cloud identity on this route, see Sources.For.
//   - Errors contain no credentials and no content of a Docker config.
//   - The credentials of a cloud provider are cached until shortly before they expire.
package credentials
