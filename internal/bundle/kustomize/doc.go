// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kustomize finds and builds the kustomizations of artifacts, which may be hostile. The package uses only the
// files that the caller passes. It does not read files of the system, and sends no requests.
//
// [New] takes the files of an artifact. [Kustomizer.Above] finds the kustomization that contains a file.
// [Kustomizer.AddTo] builds this kustomization and reads its objects. [Build] builds a kustomization of the user in
// this process.
//
// # Contract
//
//   - A kustomization is checked before it is built (check.go). The check refuses references to content outside of the
//     artifact, programs, and fields whose result has no limit. The check counts a file as often as it is used.
//   - A kustomization is built in a task of a [sandbox.Runner], because kustomize has no limit for memory and time. The
//     caller must serve the [Tasks].
//   - Errors have the kind unpack.ErrInvalidManifests, unpack.ErrTooLarge or unpack.ErrLimit. They contain no patches
//     and no file content.
package kustomize
