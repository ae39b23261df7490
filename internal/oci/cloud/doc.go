// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloud gets credentials for the registries of cloud providers with the
// controller's own identity, as the providers' SDKs find it: for AWS IRSA, EKS Pod
// Identity or the instance's role; for Azure workload identity or a managed
// identity; for Google Cloud workload identity or the instance's service account.
// It is the only package that imports those SDKs.
//
// # Contract
//
//   - A credential is made for a registry of the very provider only, told by the
//     registry's host name; anything else is oci.ErrInvalidAccess, without a request.
//   - No program is run, no file is written, and no identity but the controller's
//     is used.
//   - A login ends within Options.Timeout, whatever the SDK does. The proxy settings
//     of the environment are used.
//   - Errors are *oci.Error. They name the provider's error code and what to check;
//     they hold neither tokens nor what a provider wrote in a body.
//   - Nothing is kept: the caller keeps credentials until they expire.
package cloud
