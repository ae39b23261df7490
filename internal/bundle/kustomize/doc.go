// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kustomize finds and builds the kustomizations of artifacts, which may be hostile.
//
// [New] takes the files of an artifact. [Kustomizer.Above] finds the kustomization that contains a file, and
// [Kustomizer.AddTo] builds it and reads its objects. [Build] builds a kustomization of the user in this process.
//
// # Contract
//
//   - A kustomization is checked before it is built (check.go). The check refuses references to anything outside of the
//     artifact, programs, and fields whose result has no limit. It weighs the files as often as they are used.
//   - A kustomization is built in a task of a [sandbox.Runner], because the memory and the time of kustomize have no
//     limit. Callers must serve the [Tasks].
//   - Errors have the kind unpack.ErrInvalidManifests, unpack.ErrTooLarge or unpack.ErrLimit. They quote no patches and
//     no files.
//
// The package reads no files of the system and sends no requests.
package kustomize
