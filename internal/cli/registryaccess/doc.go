// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registryaccess gives commands access to artifacts in registries. It has flags, references, credentials from
// the Docker configuration, reading, pushing, signing and progress.
//
// The package has no commands, and does not read HelmOps. Callers must add the flags to their command, and must use the
// context of [Flags.Bounded] for their requests.
package registryaccess
