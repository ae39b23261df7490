// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloud gets credentials for the registries of cloud providers. It uses the manager's own
// identity, as the providers' SDKs find it: for AWS IRSA, EKS Pod Identity or the instance's role; for
// Azure a workload identity or a managed identity; for Google Cloud a workload identity or the
// instance's service account. It is the only package that imports these SDKs.
//
// # Contract
//
//   - A provider's credential is issued only for a registry of this provider. The registry's host name
//     decides. Other registries are ocierr.ErrInvalidAccess, without a request.
//   - The package runs no program, writes no file, and uses no identity but the manager's.
//   - A login ends within Options.Timeout, even if the SDK ignores the deadline. The proxy settings of
//     the environment apply.
//   - Errors are *ocierr.Error. They name the provider's error code and what to check. They contain
//     neither tokens nor text from a response body.
//   - The package caches nothing: the caller keeps credentials until they expire.
package cloud
