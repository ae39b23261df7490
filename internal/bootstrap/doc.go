// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap builds and applies an installation of HelmOp from artifacts in a registry. The installation
// consists of the components of the provider, and of two HelmOps: one keeps the provider in sync with its artifact, the
// other one keeps the desired state of the management cluster in sync.
//
// # Contract
//
//   - The same input gives the same output: the output has no times, random names or unstable orders.
//   - Applied components have the ownership metadata of the provider's Helm release, which later adopts them. So the
//     adoption neither changes nor restarts them.
//   - Objects are applied with server-side apply, in this order: Namespaces, CustomResourceDefinitions, and the rest.
//     The rest waits until the definitions are served.
//   - The package sends no requests to registries, and reads no files: callers pass their content.
package bootstrap
