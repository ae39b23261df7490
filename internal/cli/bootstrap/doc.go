// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap has the command "bootstrap". It pushes the components of HelmOp and the desired state of a
// management cluster to a registry, and installs HelmOp from this registry.
//
// The package reads flags, pushes and signs artifacts, and checks credentials. It does not decide which objects to
// apply: internal/bootstrap does. Callers add the result of [Command] to their root command.
package bootstrap
