// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials finds the credential for a registry: in the Docker configs of an Access, at a cloud
// provider, or in the Docker config of the manager.
//
// # Contract
//
//   - The package makes no request itself. A CloudLogin, which the caller provides, logs in to clouds.
//   - It runs no program: credential helpers in a Docker config are errors.
//   - The manager's own credentials and its cloud identity are not used on a route whose requests the
//     author of the Access may be able to read, see Access.
//   - Errors contain neither credentials nor the content of a Docker config.
//   - The credentials of a cloud provider are cached until shortly before they expire.
package credentials
