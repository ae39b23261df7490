// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap has the command "bootstrap". It pushes the components of HelmOp and the desired state of a
// management cluster to a registry, and installs HelmOp from this registry.
//
// The package knows flags, pushes, signatures and credentials. It does not know the objects to apply:
// internal/bootstrap decides them. Callers add the result of [Command] to their root command.
package bootstrap
