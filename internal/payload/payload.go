// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package payload is what those who make payloads and those who keep them have in common. A payload is that part of a
// record of Helm which never changes: the chart's files, the rendered manifest, the hooks, the values. The engine
// encrypts it before it hands it to a [Store], and checks what it gets back: a store keeps bytes and knows nothing of
// Helm.
package payload

import (
	"context"
	"errors"
)

var (
	// ErrMissing means that a store does not have a payload any more, or has other bytes in its place.
	ErrMissing = errors.New("the payload is missing or damaged")
	// ErrNotAllowed means that a store must not be asked for a payload, or to delete it: it is in a place that nobody
	// configured, or belongs to another release.
	ErrNotAllowed = errors.New("not allowed")
	// ErrKept means that a store does not delete, for example because its credentials have no right to.
	ErrKept = errors.New("the store does not support deletion")
)

// Name tells of which record a payload is.
type Name struct {
	// Namespace and Release identify the release in its cluster.
	Namespace, Release string
	// Revision is Helm's number of the record.
	Revision int
	// ID is a digest of the content with a key that only the action has which puts the payload, 32 hexadecimal digits.
	// Payloads that different actions put have different IDs, and an ID tells nothing about the content.
	ID string
}

// Place is where a payload is kept.
type Place struct {
	// URL is that of the repository, "oci://host/path".
	URL string `json:"url"`
	// Manifest is the digest of the artifact, Digest that of its only layer; "sha256:…".
	Manifest string `json:"manifest"`
	Digest   string `json:"digest"`
	// Size of the layer, in bytes.
	Size int64 `json:"size"`
}

// Store keeps payloads outside of the cluster of their release. What it is given is encrypted. The places that it is
// asked for come from the workload cluster and are not to be trusted. Its errors hold no secrets. It is safe for
// concurrent use.
type Store interface {
	// Prepare finds out, before anything is begun, whether the store answers and lets itself be written to now, without
	// leaving anything behind that is of one release.
	Prepare(ctx context.Context) error
	// Put keeps a payload.
	Put(ctx context.Context, name Name, data []byte) (Place, error)
	// Get returns a payload: ErrMissing if it is not there as it was put, ErrNotAllowed if the place is none of the
	// store's.
	Get(ctx context.Context, place Place) ([]byte, error)
	// Delete deletes a payload; one that is gone is no error. ErrKept says that trying again is of no use for now,
	// ErrNotAllowed that the payload is not of the release.
	Delete(ctx context.Context, place Place, name Name) error
}
