// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Stored returns the manifest with a digest if it is in the store. It makes no request. Read the
// layers with ReadStored.
func (c *Client) Stored(url, dgst string) (*Content, bool) {
	want := digest.Digest(dgst)
	if want.Validate() != nil {
		return nil, false
	}
	m, err := c.storedManifest(url+"@"+dgst, want)
	if err != nil {
		return nil, false
	}
	return m.content(c, url, Access{}), true
}

// ReadStored returns the bytes of a layer from the store, verified against its digest, or
// ErrNotStored. It makes no request. The bytes may be shared with other callers: do not change
// them.
func (c *Content) ReadStored(_ context.Context, layer Layer) ([]byte, error) {
	desc := ocispec.Descriptor{Digest: digest.Digest(layer.Digest), Size: layer.Size}
	return c.client.storedBlob(desc, c.client.opts.MaxBlobBytes)
}
