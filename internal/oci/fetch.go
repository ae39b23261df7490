// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/flight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/store"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	opBlob = "get blob"
	// blobAttempts is the number of attempts to pull a blob.
	blobAttempts = 2
	// minPull is the minimum number of bytes that a pull counts for. It limits the number of concurrent pulls.
	minPull = 1 << 20
	// pullShare divides Options.MaxBytes. The result is the limit for the sum of all concurrent pulls. Half of the
	// store remains for content in use.
	pullShare = 2
)

// Content is a manifest. Its methods read the layers.
type Content struct {
	// URL is the repository. Digest is the digest of the manifest.
	URL    string
	Digest string
	// MediaType is the media type of the manifest itself. ConfigMediaType and ArtifactType are the two fields that
	// declare the kind of an artifact.
	MediaType       string
	ConfigMediaType string
	ArtifactType    string
	// Annotations are the annotations of the manifest.
	Annotations map[string]string
	// Layers are the layers in the order of the manifest. There is at least one layer.
	Layers []Layer

	client *Client
	// pull pulls a layer into the store.
	pull func(ctx context.Context, layer ocispec.Descriptor) error
}

// Layer describes a layer of a Content.
type Layer struct {
	MediaType string
	// Digest is the digest of the layer's bytes in the registry, "sha256:…".
	Digest string
	// Size is the size in bytes, according to the manifest.
	Size        int64
	Annotations map[string]string
}

// Fetch returns the manifest with a digest, from the store or from the registry. Concurrent callers share one request.
// Fetch does not pull layers. If the manifest is in the store, Fetch does not use access.
func (c *Client) Fetch(ctx context.Context, url, dgst string, access Access) (*Content, error) {
	src := Source{URL: url, Ref: Reference{Digest: dgst}, Access: access}
	if err := src.Validate(); err != nil {
		return nil, err
	}
	want := digest.Digest(dgst)
	if m, err := c.storedManifest(url+"@"+dgst, want); err == nil {
		return m.content(c, url, access), nil
	}
	e, err := c.endpoints.Endpoint(url, access)
	if err != nil {
		return nil, err
	}
	m, err := c.manifest(ctx, e, want)
	if err != nil {
		return nil, err
	}
	return m.content(c, url, access), nil
}

// ReadLayer returns the verified bytes of a layer, from the store or from the registry. Concurrent callers share one
// pull and may share the bytes, so do not change them. The error is ErrTooLarge for a layer over Options.MaxBlobBytes.
func (c *Content) ReadLayer(ctx context.Context, layer Layer) ([]byte, error) {
	limit := c.client.opts.MaxBlobBytes
	desc, err := c.descriptor(layer, limit)
	if err != nil {
		return nil, err
	}
	data, err := c.client.storedBlob(desc, limit)
	if !errors.Is(err, ocierr.ErrNotStored) {
		return data, err
	}
	return c.client.pulledBlob(ctx, c.URL, desc, limit, c.pull)
}

// PullLayer pulls a layer into the store without reading the layer into memory. Concurrent callers share one pull.
// ReadLayer then finds the layer in the store. The error is ErrTooLarge for a layer over Options.MaxBlobBytes or
// Options.MaxBytes.
func (c *Content) PullLayer(ctx context.Context, layer Layer) error {
	desc, err := c.descriptor(layer, min(c.client.opts.MaxBlobBytes, c.client.opts.MaxBytes))
	if err != nil {
		return err
	}
	if c.client.store.Has(desc.Digest) {
		return nil
	}
	return c.pull(ctx, desc)
}

// descriptor returns the descriptor of a layer. The layer may have at most limit bytes.
func (c *Content) descriptor(layer Layer, limit int64) (ocispec.Descriptor, error) {
	desc := ocispec.Descriptor{MediaType: layer.MediaType, Digest: digest.Digest(layer.Digest), Size: layer.Size}
	if err := desc.Digest.Validate(); err != nil {
		return desc, &ocierr.Error{Op: opBlob, Subject: c.URL, Kind: ocierr.ErrInvalidReference, Detail: "not a digest"}
	}
	if layer.Size > limit {
		return desc, tooLargeBlob(c.URL, desc, limit)
	}
	return desc, nil
}

// blob returns a blob from the store, or pulls it. The blob may have at most limit bytes.
func (c *Client) blob(ctx context.Context, e *endpoint.Endpoint, desc ocispec.Descriptor, limit int64) ([]byte, error) {
	if desc.Size > limit {
		return nil, tooLargeBlob(e.URL, desc, limit)
	}
	data, err := c.storedBlob(desc, limit)
	if !errors.Is(err, ocierr.ErrNotStored) {
		return data, err
	}
	return c.pulledBlob(ctx, e.URL, desc, limit, func(ctx context.Context, desc ocispec.Descriptor) error {
		return c.pull(ctx, e, desc)
	})
}

// storedBlob reads a blob from the store. It returns ErrNotStored if the store does not have the blob.
func (c *Client) storedBlob(desc ocispec.Descriptor, limit int64) ([]byte, error) {
	data, err := c.store.Read(desc.Digest, limit)
	c.opts.Observer.cache(CacheBlob, err == nil)
	return data, err
}

// pulledBlob pulls a blob into the store and then reads it from the store.
func (c *Client) pulledBlob(ctx context.Context, url string, desc ocispec.Descriptor, limit int64,
	pull func(context.Context, ocispec.Descriptor) error,
) ([]byte, error) {
	for range blobAttempts {
		if err := pull(ctx, desc); err != nil {
			return nil, err
		}
		data, err := c.store.Read(desc.Digest, limit)
		if !errors.Is(err, ocierr.ErrNotStored) {
			return data, err
		}
		// The store has dropped a corrupt copy of the blob. Pull the blob again.
	}
	return nil, &ocierr.Error{Op: opBlob, Subject: url + "@" + desc.Digest.String(), Kind: ocierr.ErrStore,
		Detail: "stored content cannot be read back"}
}

// pull pulls a blob into the store, once for all concurrent callers with the same endpoint and tenant. It checks the
// store again: an earlier pull may have ended after the caller's check.
func (c *Client) pull(ctx context.Context, e *endpoint.Endpoint, desc ocispec.Descriptor) error {
	subject := e.URL + "@" + desc.Digest.String()
	call := flight.Call{Key: tenantKey(ctx, e.Key, desc.Digest.String()), Limit: c.opts.PullTimeout, Op: opBlob,
		Subject: subject}
	_, err := flight.Do(ctx, &c.blobs, call, func(ctx context.Context) (struct{}, error) {
		if c.store.Has(desc.Digest) {
			return struct{}{}, nil
		}
		return struct{}{}, c.pullBlob(ctx, e, desc, subject)
	})
	return err
}

// pullBlob pulls a blob into the store. It repeats the request in three cases: the connection broke, the store asks for
// a second attempt, or another host may have the right content.
func (c *Client) pullBlob(ctx context.Context, e *endpoint.Endpoint, desc ocispec.Descriptor, subject string) error {
	// Wait for room before the request. Otherwise, the request would hold a connection during the wait.
	lease, err := c.pulls.Acquire(ctx, bytebudget.Owner{Tenant: transport.TenantOf(ctx), Host: e.Host()},
		max(desc.Size, minPull))
	if err != nil {
		return ocierr.NoRoom(opBlob, subject)
	}
	defer lease.Release()
	return repeatPull(ctx, e, desc, subject, func(ctx context.Context) error { return c.pullToStore(ctx, e, desc) })
}

// repeatPull calls fn until fn succeeds. It stops after a failure that another attempt or another host cannot correct.
func repeatPull(ctx context.Context, e *endpoint.Endpoint, desc ocispec.Descriptor, subject string,
	fn func(context.Context) error,
) error {
	var failure *ocierr.Error
	for range max(blobAttempts, e.Hosts()) {
		requests, x := e.Begin(ctx)
		x.Size = desc.Size
		err := fn(requests)
		if err == nil {
			return nil
		}
		failure = x.Error(opBlob, subject, err)
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, store.ErrTryAgain) && !e.ShouldTryNextHost(failure) {
			break
		}
	}
	return failure
}

func (c *Client) pullToStore(ctx context.Context, e *endpoint.Endpoint, desc ocispec.Descriptor) error {
	body, err := e.Repository().Blobs().Fetch(ctx, desc)
	if err != nil {
		return err
	}
	release, err := c.store.Write(desc, body)
	_ = body.Close() // the body is no longer needed
	if err == nil {
		release()
	}
	return err
}

func tooLargeBlob(url string, desc ocispec.Descriptor, limit int64) *ocierr.Error {
	return &ocierr.Error{Op: opBlob, Subject: url + "@" + desc.Digest.String(), Kind: ocierr.ErrTooLarge,
		Detail: fmt.Sprintf("%d bytes; the limit is %d", desc.Size, limit)}
}

// Stored returns the manifest with a digest if the store has it. It sends no request. Read the layers with ReadStored.
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

// ReadStored returns the verified bytes of a layer from the store, or ErrNotStored. It sends no request. Callers may
// share the bytes, so do not change them.
func (c *Content) ReadStored(_ context.Context, layer Layer) ([]byte, error) {
	desc := ocispec.Descriptor{Digest: digest.Digest(layer.Digest), Size: layer.Size}
	return c.client.storedBlob(desc, c.client.opts.MaxBlobBytes)
}
