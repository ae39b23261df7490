// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap builds and applies an installation of HelmOp that is kept in a registry: the components of the
// provider, and the HelmOps that keep these and the desired state of the management cluster in sync with the registry.
//
// # Contract
//
//   - The same input gives the same output: there are no times, random names or unstable orders.
//   - Applied components carry the ownership metadata of the release that later adopts them. Adoption therefore neither
//     changes nor restarts them.
//   - Objects are applied with server-side apply, dependencies first: Namespaces, then CustomResourceDefinitions until
//     they are served, then the rest.
//   - The package sends no requests to registries, and reads nothing from the machine except what the caller passes in.
package bootstrap
