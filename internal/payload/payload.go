// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package payload defines the interface between the engine, which creates payloads, and the stores that keep them. A
// payload is the part of a Helm record that never changes: the files of the chart, the rendered manifest, the hooks and
// the values. The engine encrypts a payload before it passes the payload to a [Store], and verifies what the store
// returns. A store handles only bytes and does not depend on Helm.
package payload

import (
	"context"
	"errors"
)

var (
	// ErrMissing means that a store no longer has a payload, or has other bytes in its place.
	ErrMissing = errors.New("the payload is missing or damaged")
	// ErrNotAllowed means that a payload must not be read or deleted, because its repository is not
	// configured or it belongs to another release.
	ErrNotAllowed = errors.New("not allowed")
	// ErrKept means that a store cannot delete payloads, for example because its credentials do not permit deletions.
	ErrKept = errors.New("the store does not support deletion")
)

// Name identifies the record of a payload.
type Name struct {
	// Namespace and Release identify the release in its cluster.
	Namespace, Release string
	// Revision is the Helm revision of the record.
	Revision int
	// ID is a keyed digest of the content, with 32 hexadecimal digits. Each action has its own key. So payloads of
	// different actions have different IDs, and an ID does not reveal the content.
	ID string
}

// Place is the location of a payload.
type Place struct {
	// URL is the URL of the repository, "oci://host/path".
	URL string `json:"url"`
	// Manifest is the digest of the artifact. Digest is the digest of its only layer. Both have the form "sha256:…".
	Manifest string `json:"manifest"`
	Digest   string `json:"digest"`
	// Size is the size of the layer in bytes.
	Size int64 `json:"size"`
}

// Store keeps payloads outside of the cluster of their release. Callers must pass encrypted payloads. Callers read a
// Place from the workload cluster, so a store must not trust the Place. The errors of a store contain no secrets. A
// store is safe for concurrent use.
type Store interface {
	// Prepare checks before an action that the store is available and writable. It must not leave data for a single
	// release.
	Prepare(ctx context.Context) error
	// Put stores a payload.
	Put(ctx context.Context, name Name, data []byte) (Place, error)
	// Get returns a payload. The error is ErrMissing if the payload is missing or changed, and ErrNotAllowed if the place
	// does not belong to the store.
	Get(ctx context.Context, place Place) ([]byte, error)
	// Delete deletes a payload. It returns no error for a missing payload. ErrKept means that another attempt cannot
	// succeed for now. ErrNotAllowed means that the payload does not belong to the release.
	Delete(ctx context.Context, place Place, name Name) error
}
