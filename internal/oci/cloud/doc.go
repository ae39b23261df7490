/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
