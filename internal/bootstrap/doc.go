// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap knows what an installation without Git consists of: the components of the provider, the objects that keep them and
// the desired state of the management cluster in step with a registry, and how they are applied.
//
// # Contract
//
//   - Equal input gives equal output: nothing here has a time, a random name or an order that is not fixed.
//   - What is applied here is what the manager installs later: it has the ownership metadata of the release that takes it over, so that
//     this is no change, and no restart.
//   - Objects are applied by server-side apply, in an order in which none is refused for want of another: namespaces, then
//     CustomResourceDefinitions until they are served, then the rest.
//   - No registry is asked here, and nothing of the machine is read but what the caller gives.
package bootstrap
