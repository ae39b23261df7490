// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloud gets credentials for the registries of cloud providers. It uses the manager's own identity, which the
// providers' SDKs find: for AWS, IRSA, EKS Pod Identity or the role of the instance; for Azure, a workload identity or
// a managed identity; for Google Cloud, a workload identity or the service account of the instance. It is the only
// package that imports these SDKs.
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
//   - The package caches nothing: the caller must keep a credential until it expires.
package cloud
