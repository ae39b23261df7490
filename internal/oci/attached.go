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
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	opReferrers = "list referrers of"

	// maxReferrerPages limits the number of pages in a list of referrers. A broken registry may send pages without end.
	maxReferrerPages = 100
)

// errEnough stops a list when the caller's limit is reached.
var errEnough = errors.New("enough")

// Referrer is a manifest that refers to another manifest as its subject. Examples are a signature and a bill of
// materials.
type Referrer struct {
	// Digest is the digest of the referring manifest.
	Digest string
	// ArtifactType is the artifact type in the registry's list. It may be wrong or empty if the list comes from the
	// referrers tag.
	ArtifactType string
	// Annotations are the annotations of the manifest, as the registry's list has them.
	Annotations map[string]string
}

// Referrers returns at most limit manifests that refer to a digest, in the order of the registry. more is true if there
// are further manifests. Referrers takes at most Options.Timeout. An empty list is not an error.
//
// Referrers uses the referrers API. If the registry does not have this API, it uses the referrers tag (distribution
// specification 1.1, "Referrers Tag Schema"). It does not use the store, because the list may grow.
func (c *Client) Referrers(ctx context.Context, url, dgst string, access Access,
	limit int,
) (list []Referrer, more bool, err error) {
	e, err := c.attachedTo(url, dgst, access)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	requests, x := e.Begin(ctx)
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
	repository := e.Repository()
	repository.Client = manifestClient{Client: repository.Client, subject: url + "@" + dgst}
	_, err = ListReferrers(requests, repository, ocispec.Descriptor{Digest: digest.Digest(dgst)}, collect)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, false, x.Error(opReferrers, url+"@"+dgst, err)
	}
	return list, more, nil
}

// ListReferrers calls collect with the manifests that refer to a subject. It uses the referrers API, or the referrers
// tag if the registry does not have the API. A registry without the API should answer 404, but some registries send
// other errors. If the API has already sent a part of the list, ListReferrers does not read the tag: the list would
// contain this part twice. ListReferrers reads at most maxReferrerPages pages. hasAPI is true if the API sent the list.
func ListReferrers(ctx context.Context, repository *remote.Repository, subject ocispec.Descriptor,
	collect func([]ocispec.Descriptor) error,
) (hasAPI bool, err error) {
	list := func(hasAPI bool, collect func([]ocispec.Descriptor) error) error {
		// A client remembers whether the registry has the API.
		client := &remote.Repository{Client: repository.Client, Reference: repository.Reference,
			PlainHTTP: repository.PlainHTTP, MaxMetadataBytes: repository.MaxMetadataBytes,
			ReferrerListMaxPages: maxReferrerPages}
		// Without this call, the library would change to the tag after any page.
		if err := client.SetReferrersCapability(hasAPI); err != nil {
			return err
		}
		return client.Referrers(ctx, subject, "", collect)
	}
	begun := false
	err = list(true, func(page []ocispec.Descriptor) error {
		begun = begun || len(page) > 0
		return collect(page)
	})
	if begun || !lacksReferrersAPI(err) {
		return err == nil, err
	}
	return false, list(false, collect)
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

// FetchTag returns the manifest that a tag refers to now. It takes at most Options.Timeout. It does not replace a "+"
// in the tag.
func (c *Client) FetchTag(ctx context.Context, url, tag string, access Access) (*Content, error) {
	e, err := c.endpoints.Endpoint(url, access)
	if err != nil {
		return nil, err
	}
	subject := url + ":" + tag
	if !tagPattern.MatchString(tag) {
		return nil, &ocierr.Error{Op: opManifest, Subject: url, Kind: ocierr.ErrInvalidReference, Detail: "not a tag"}
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	m, err := c.pullManifest(ctx, e, subject, tag, "")
	if err != nil {
		return nil, err
	}
	return m.content(c, url, access), nil
}

// RawManifest returns the media type and the bytes of the manifest with a digest. It reads them from the store or from
// the registry.
func (c *Client) RawManifest(ctx context.Context, url, dgst string,
	access Access,
) (mediaType string, data []byte, err error) {
	content, err := c.Fetch(ctx, url, dgst, access)
	if err != nil {
		return "", nil, err
	}
	if data, err = c.store.Read(digest.Digest(dgst), endpoint.MaxMetadata); err != nil {
		return "", nil, &ocierr.Error{Op: opManifest, Subject: url + "@" + dgst, Kind: ocierr.ErrStore,
			Detail: "stored content cannot be read back"}
	}
	return content.MediaType, data, nil
}

// ReadSmallLayer is ReadLayer with a smaller limit. A layer of more than limit bytes is not pulled, and the error is
// ErrTooLarge.
func (c *Content) ReadSmallLayer(ctx context.Context, layer Layer, limit int64) ([]byte, error) {
	if layer.Size > limit {
		desc := ocispec.Descriptor{Digest: digest.Digest(layer.Digest), Size: layer.Size}
		return nil, tooLargeBlob(c.URL, desc, limit)
	}
	return c.ReadLayer(ctx, layer)
}

// attachedTo returns the endpoint of the repository with a digest. It returns an error if the URL or the digest is
// malformed.
func (c *Client) attachedTo(url, dgst string, access Access) (*endpoint.Endpoint, error) {
	src := Source{URL: url, Ref: Reference{Digest: dgst}}
	if err := src.Validate(); err != nil {
		return nil, err
	}
	return c.endpoints.Endpoint(url, access)
}
