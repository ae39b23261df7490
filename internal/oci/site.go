// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/singleflight"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/flight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/store"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const opFile = "get"

// Site is a web server with files, for example a Helm chart repository. It pulls files into the store of its Client.
type Site struct {
	*endpoint.Site
	client *Client
}

// Site returns the site at a URL. The URL is "https://host[:port]/path", or "http://…" with Access.Insecure. Site sends
// no request. Errors are ErrInvalidReference, ErrInvalidAccess, and ErrUnauthorized for a host that the operator has
// blocked.
func (c *Client) Site(base string, access Access) (*Site, error) {
	site, err := c.endpoints.Site(base, access)
	if err != nil {
		return nil, err
	}
	return &Site{Site: site, client: c}, nil
}

// Once runs fn once for all concurrent callers of a tenant with the same site and content. It takes at most
// Options.PullTimeout. If a caller stops waiting, the other callers still get the result. Once adds the operation and
// the subject to errors without them.
func Once[T any](ctx context.Context, s *Site, group *singleflight.Group, content, op, subject string,
	fn func(context.Context) (T, error),
) (T, error) {
	call := flight.Call{Key: tenantKey(ctx, s.Key(), content), Limit: s.client.opts.PullTimeout, Op: op, Subject: subject}
	return flight.Do(ctx, group, call, fn)
}

// Pull pulls a file into the content store and returns the digest and the size of the file. Concurrent callers of a
// tenant share one pull. If want is not empty, the file must have this digest, and Pull sends no request if the store
// has the file. The error is ErrTooLarge for a file over Options.MaxBlobBytes.
func (s *Site) Pull(ctx context.Context, target *url.URL, want string) (Layer, error) {
	dgst, subject := digest.Digest(want), endpoint.SubjectOf(target)
	if want != "" && dgst.Validate() != nil {
		return Layer{}, &ocierr.Error{Op: opFile, Subject: subject, Kind: ocierr.ErrInvalidReference, Detail: "not a digest"}
	}
	return Once(ctx, s, &s.client.blobs, target.String()+"\n"+want, opFile, subject,
		func(ctx context.Context) (Layer, error) {
			if stored, ok := s.client.StoredFile(want); ok {
				return stored, nil
			}
			return s.pull(ctx, target, dgst)
		})
}

// roomError means that a pull needs more room than it reserved, and that other pulls use this room.
type roomError struct{ bytes int64 }

// Error implements error.
func (e *roomError) Error() string { return fmt.Sprintf("no room for %d bytes", e.bytes) }

// pull pulls a file. If the answer needs more room than is free, pull waits for the room and repeats the request.
func (s *Site) pull(ctx context.Context, target *url.URL, want digest.Digest) (Layer, error) {
	layer, err := s.pullWithin(ctx, target, want, minPull)
	var short *roomError
	if errors.As(err, &short) {
		layer, err = s.pullWithin(ctx, target, want, short.bytes)
	}
	if errors.As(err, &short) {
		err = ocierr.NoRoom(opFile, endpoint.SubjectOf(target)) // the second answer needs more than the first one
	}
	if err != nil {
		_, x := s.Begin(ctx)
		return Layer{}, x.Error(opFile, endpoint.SubjectOf(target), err)
	}
	return layer, nil
}

// pullWithin waits for room for a number of bytes, and pulls a file. It repeats the request if the connection breaks,
// or if the store asks for a second attempt.
func (s *Site) pullWithin(ctx context.Context, target *url.URL, want digest.Digest, room int64,
) (layer Layer, err error) {
	// Wait for room before the request. Otherwise, the request would hold a connection during the wait.
	lease, err := s.client.pulls.Acquire(ctx, s.Owner(ctx), room)
	if err != nil {
		return Layer{}, ocierr.NoRoom(opFile, endpoint.SubjectOf(target))
	}
	defer lease.Release()
	for range blobAttempts {
		layer, err = s.pullOnce(ctx, target, want, lease)
		if err == nil || !errors.Is(err, ocierr.ErrIntegrity) && !errors.Is(err, store.ErrTryAgain) {
			break
		}
	}
	return layer, err
}

// pullOnce pulls a file with one request. The error is a roomError if the lease cannot grow to the size of the file.
func (s *Site) pullOnce(ctx context.Context, target *url.URL, want digest.Digest,
	lease *bytebudget.Lease,
) (Layer, error) {
	limit := min(s.client.opts.MaxBlobBytes, s.client.opts.MaxBytes)
	resp, err := s.Get(ctx, transport.RequestBlob, target, nil)
	if err != nil {
		return Layer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // the body is no longer needed
	if resp.ContentLength >= 0 {
		if resp.ContentLength > limit {
			return Layer{}, &ocierr.Error{Op: opFile, Subject: endpoint.SubjectOf(target), Kind: ocierr.ErrTooLarge,
				Detail: fmt.Sprintf("%d bytes; the limit is %d", resp.ContentLength, limit)}
		}
		limit = resp.ContentLength
	}
	if room := min(limit, s.client.pulls.Share()); lease.Grow(room) != nil {
		return Layer{}, &roomError{room}
	}
	desc, release, err := s.client.store.WriteFile(want, limit, resp.Body)
	if err != nil {
		return Layer{}, err
	}
	release()
	return Layer{Digest: desc.Digest.String(), Size: desc.Size}, nil
}

// StoredFile returns the digest and the size of a file if the store has the file. It sends no request.
func (c *Client) StoredFile(dgst string) (Layer, bool) {
	size, ok := c.store.Size(digest.Digest(dgst))
	return Layer{Digest: dgst, Size: size}, ok
}

// StoredPrefix returns the first bytes of a file, at most n, if the store has the file. It sends no request, and does
// not verify the file.
func (c *Client) StoredPrefix(dgst string, n int64) ([]byte, bool) {
	return c.store.Prefix(digest.Digest(dgst), n)
}

// FileContent returns a Content whose only layer is a file. Its digest is the digest of the file. If the store does not
// have the file, ReadLayer calls pull, which must pull the file into the store.
func (c *Client) FileContent(url, configMediaType string, layer Layer, pull func(context.Context) error) *Content {
	return &Content{
		URL: url, Digest: layer.Digest, ConfigMediaType: configMediaType, Layers: []Layer{layer}, client: c,
		pull: func(ctx context.Context, desc ocispec.Descriptor) error {
			if c.store.Has(desc.Digest) {
				return nil
			}
			return pull(ctx)
		},
	}
}
