// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registryaccess gives commands access to artifacts in registries: flags, references, credentials of the Docker
// configuration, reading, pushing, signing, and progress. It has no commands of its own. Callers add the flags to their
// command, and run their requests in the context that Flags.Bounded returns.
package registryaccess
