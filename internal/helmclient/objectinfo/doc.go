// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectinfo answers questions about single objects of a manifest:
//
//   - which object it is, whether it is a hook, and what its manifest says about its deletion (infos.go)
//   - to which release it belongs (owner.go)
//   - the metadata that it has in the cluster (state.go)
//   - whether HelmOp created the object, or only took it over (creator.go)
//   - whether an object in a cluster has the content of a manifest (content.go)
//
// The package changes no object, and only reads metadata. Package apply creates, updates and deletes the objects.
package objectinfo
