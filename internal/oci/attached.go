// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"net/http"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

const (
	opReferrers = "list referrers of"

	// maxReferrerPages bounds what a registry can make us read of a list that it
	// does not end.
	maxReferrerPages = 100
)

// errEnough ends a listing early.
var errEnough = errors.New("enough")

// Referrer is a manifest that names another as its subject: a signature or a
// bill of materials, for example.
type Referrer struct {
	// Digest is the referring manifest's digest.
	Digest string
	// ArtifactType is what the registry says the manifest declares. Lists kept
	// under a tag may say something else, or nothing.
	ArtifactType string
	// Annotations are those the registry repeats from the manifest.
	Annotations map[string]string
}

// Referrers returns at most limit manifests that refer to a digest, in the
// registry's order, within Options.Timeout, and whether there are more. It asks
// the referrers API, and where a registry has none the tag that stands for it
// (distribution specification 1.1, "Referrers Tag Schema"). None at all is no
// error. Nothing is taken from the store, for the list may grow.
func (c *Client) Referrers(ctx context.Context, url, dgst string, access Access,
	limit int,
) (list []Referrer, more bool, err error) {
	e, err := c.attachedTo(url, dgst, access)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	requests, x := withExchange(ctx, e.ref.Registry)
	collect := func(page []ocispec.Descriptor) error {
		for _, desc := range page {
			if len(list) == limit {
				more = true
				return errEnough
			}
			list = append(list, Referrer{Digest: desc.Digest.String(), ArtifactType: desc.ArtifactType,
				Annotations: desc.Annotations})
		}
		return nil
	}
	err = listReferrers(requests, e, digest.Digest(dgst), collect)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, false, classify(opReferrers, url+"@"+dgst, err, x)
	}
	return list, more, nil
}

// listReferrers asks the API, and the tag also where the registry answers the
// API with other refusals than the 404 that the specification asks for. It does
// not go on with the tag where the API began a list: it would have the same twice.
func listReferrers(ctx context.Context, e *endpoint, subject digest.Digest,
	collect func([]ocispec.Descriptor) error,
) error {
	repository := e.repository()
	repository.Client = manifestClient{Client: repository.Client, subject: e.url + "@" + subject.String()}
	repository.ReferrerListMaxPages = maxReferrerPages
	// The library would go over to the tag at any page.
	if err := repository.SetReferrersCapability(true); err != nil {
		return err
	}
	desc, begun := ocispec.Descriptor{Digest: subject}, false
	err := repository.Referrers(ctx, desc, "", func(page []ocispec.Descriptor) error {
		begun = begun || len(page) > 0
		return collect(page)
	})
	if begun || !lacksReferrersAPI(err) {
		return err
	}
	repository = e.repository()
	repository.Client = manifestClient{Client: repository.Client, subject: e.url + "@" + subject.String()}
	if err := repository.SetReferrersCapability(false); err != nil {
		return err
	}
	return repository.Referrers(ctx, desc, "", collect)
}

func lacksReferrersAPI(err error) bool {
	var answer *errcode.ErrorResponse
	if !errors.As(err, &answer) {
		return errors.Is(err, errdef.ErrUnsupported)
	}
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusNotImplemented:
		return true
	}
	return false
}

// FetchTag returns the manifest that a tag stands for now, within
// Options.Timeout. The tag is taken as it is; a "+" is not mapped.
func (c *Client) FetchTag(ctx context.Context, url, tag string, access Access) (*Content, error) {
	e, err := c.clients.endpoint(url, access)
	if err != nil {
		return nil, err
	}
	subject := url + ":" + tag
	if !tagPattern.MatchString(tag) {
		return nil, &Error{Op: opManifest, Subject: url, Kind: ErrInvalidReference, Detail: "not a tag"}
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	m, err := c.pullManifest(ctx, e, subject, tag, "")
	if err != nil {
		return nil, err
	}
	return m.content(c, url, access), nil
}

// RawManifest returns the bytes of the manifest with a digest and its media type,
// from the store or from the registry.
func (c *Client) RawManifest(ctx context.Context, url, dgst string,
	access Access,
) (mediaType string, data []byte, err error) {
	content, err := c.Fetch(ctx, url, dgst, access)
	if err != nil {
		return "", nil, err
	}
	if data, err = c.store.read(digest.Digest(dgst), maxMetadata); err != nil {
		return "", nil, &Error{Op: opManifest, Subject: url + "@" + dgst, Kind: ErrStore,
			Detail: "stored content cannot be read back"}
	}
	return content.MediaType, data, nil
}

// ReadSmallLayer is ReadLayer for layers of at most limit bytes; larger ones are
// ErrTooLarge and are not pulled.
func (c *Content) ReadSmallLayer(ctx context.Context, layer Layer, limit int64) ([]byte, error) {
	if layer.Size > limit {
		desc := ocispec.Descriptor{Digest: digest.Digest(layer.Digest), Size: layer.Size}
		return nil, tooLargeBlob(c.URL, desc, limit)
	}
	return c.ReadLayer(ctx, layer)
}

// attachedTo returns the repository of what is attached to a digest.
func (c *Client) attachedTo(url, dgst string, access Access) (*endpoint, error) {
	src := Source{URL: url, Ref: Reference{Digest: dgst}}
	if err := src.Validate(); err != nil {
		return nil, err
	}
	return c.clients.endpoint(url, access)
}
