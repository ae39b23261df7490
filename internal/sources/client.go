// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// source resolves and fetches artifacts from one kind of source.
type source interface {
	Resolve(ctx context.Context, src oci.Source) (oci.Artifact, error)
	Fetch(ctx context.Context, url, digest string, access oci.Access) (*oci.Content, error)
	Stored(url, digest string) (*oci.Content, bool)
}

// Client resolves and fetches artifacts. It is safe for concurrent use.
type Client struct {
	registries *oci.Client
	charts     *chartrepo.Client
}

// New returns a Client for both kinds of source. It uses the connections and the content store of a registry client.
func New(registries *oci.Client) *Client {
	return &Client{registries: registries, charts: chartrepo.New(registries)}
}

// NewBounded is like New with other limits for the memory of the indexes of chart repositories, see
// [chartrepo.NewBounded].
func NewBounded(registries *oci.Client, kept, reading int64) *Client {
	return &Client{registries: registries, charts: chartrepo.NewBounded(registries, kept, reading)}
}

func (c *Client) of(url string) source {
	if chartrepo.IsURL(url) {
		return c.charts
	}
	return c.registries
}

// Resolve finds the artifact that a source refers to. See [oci.Client.Resolve] and [chartrepo.Client.Resolve].
func (c *Client) Resolve(ctx context.Context, src oci.Source) (oci.Artifact, error) {
	return c.of(src.URL).Resolve(ctx, src)
}

// Fetch returns an artifact, from the store or from its source.
func (c *Client) Fetch(ctx context.Context, url, digest string, access oci.Access) (*oci.Content, error) {
	return c.of(url).Fetch(ctx, url, digest, access)
}

// Stored returns an artifact from the store, without a request.
func (c *Client) Stored(url, digest string) (*oci.Content, bool) {
	return c.of(url).Stored(url, digest)
}

// Registries returns the client of OCI registries.
func (c *Client) Registries() *oci.Client { return c.registries }

// Close closes idle connections.
func (c *Client) Close() { c.registries.Close() }
