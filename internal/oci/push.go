// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	opPush   = "push to"
	opDelete = "delete"

	hintPush   = "check that the account of the credentials may push to the repository"
	hintDelete = "check that the registry deletes manifests and that the account of the credentials may delete in the " +
		"repository"
)

// Upload is an artifact with one layer.
type Upload struct {
	// Tag is the tag of the artifact. Without a tag, the registry's garbage collection would delete the artifact.
	Tag string
	// ArtifactType is the artifact type of the manifest. LayerType is the media type of the layer.
	ArtifactType, LayerType string
	// Layer holds the bytes of the layer.
	Layer []byte
	// Annotations are the annotations of the manifest.
	Annotations map[string]string
}

// Pushed describes a pushed artifact.
type Pushed struct {
	// Digest is the digest of the manifest. LayerDigest is the digest of the layer. Both have the form "sha256:…".
	Digest, LayerDigest string
}

// PreparePush pushes the empty config blob that every Upload refers to. With these two requests, it checks that the
// credentials permit a push. It pushes the blob even if the registry has the blob, because an existing blob does not
// prove the permission. PreparePush takes at most Options.Timeout.
func (c *Client) PreparePush(ctx context.Context, url string, access Access) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	return c.write(ctx, opPush, url, url, access, func(ctx context.Context, to *remote.Repository) error {
		config := ocispec.DescriptorEmptyJSON
		return to.Blobs().Push(ctx, config, bytes.NewReader(config.Data))
	})
}

// Push pushes an artifact to a repository. Call PreparePush first. Push uses the registry itself and no mirror. It does
// not use the store. It takes at most Options.PullTimeout.
func (c *Client) Push(ctx context.Context, url string, access Access, upload Upload) (Pushed, error) {
	layer := ocispec.Descriptor{MediaType: upload.LayerType, Digest: digest.FromBytes(upload.Layer),
		Size: int64(len(upload.Layer))}
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: upload.ArtifactType,
		Config:       ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer}, Annotations: upload.Annotations,
	})
	if err != nil {
		return Pushed{}, err
	}
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(data),
		Size: int64(len(data))}
	ctx, cancel := context.WithTimeout(ctx, c.opts.PullTimeout)
	defer cancel()
	err = c.write(ctx, opPush, url, url+":"+upload.Tag, access, func(ctx context.Context, to *remote.Repository) error {
		if err := to.Blobs().Push(ctx, layer, bytes.NewReader(upload.Layer)); err != nil {
			return err
		}
		return to.Manifests().PushReference(ctx, desc, bytes.NewReader(data), upload.Tag)
	})
	return Pushed{Digest: desc.Digest.String(), LayerDigest: layer.Digest.String()}, err
}

// PullBlob returns the blob with a digest and a size, from a mirror or the registry. It does not use the store. It
// takes at most Options.PullTimeout.
func (c *Client) PullBlob(ctx context.Context, url string, access Access, dgst string, size int64) ([]byte, error) {
	desc := ocispec.Descriptor{Digest: digest.Digest(dgst), Size: size}
	if err := (Source{URL: url, Ref: Reference{Digest: dgst}}).Validate(); err != nil {
		return nil, err
	}
	if size < 0 || size > c.opts.MaxBlobBytes {
		return nil, tooLargeBlob(url, desc, c.opts.MaxBlobBytes)
	}
	e, err := c.endpoints.Endpoint(url, access)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.PullTimeout)
	defer cancel()
	var data []byte
	var last error
	err = repeatPull(ctx, e, desc, url+"@"+dgst, func(ctx context.Context) error {
		data, last = readBlob(ctx, e, desc)
		return last
	})
	return data, brokeOff(err, last)
}

func readBlob(ctx context.Context, e *endpoint.Endpoint, desc ocispec.Descriptor) ([]byte, error) {
	body, err := e.Repository().Blobs().Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // the needed part has been read
	return content.ReadAll(body, desc)
}

// Delete deletes a manifest with its tags. It succeeds if the manifest does not exist. The error is ErrUnsupported if
// the registry does not delete manifests. Delete takes at most Options.Timeout.
func (c *Client) Delete(ctx context.Context, url string, access Access, dgst string) error {
	if err := (Source{URL: url, Ref: Reference{Digest: dgst}}).Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	// Do not set the media type. With it, the library would read the manifest again to find its subject.
	desc := ocispec.Descriptor{Digest: digest.Digest(dgst)}
	return c.write(ctx, opDelete, url, url+"@"+dgst, access, func(ctx context.Context, to *remote.Repository) error {
		err := to.Manifests().Delete(ctx, desc)
		switch {
		case errors.Is(err, errdef.ErrNotFound):
			return nil
		case isUnsupported(err):
			return &ocierr.Error{Kind: ocierr.ErrUnsupported, Detail: "the registry does not delete manifests", Hint: hintDelete}
		}
		return err
	})
}

// isUnsupported reports whether the registry does not support the method for any user.
func isUnsupported(err error) bool {
	var answer *errcode.ErrorResponse
	if !errors.As(err, &answer) {
		return false
	}
	return answer.StatusCode == http.StatusMethodNotAllowed || answer.StatusCode == http.StatusNotImplemented ||
		slices.ContainsFunc(answer.Errors, func(e errcode.Error) bool { return e.Code == errcode.ErrorCodeUnsupported })
}

// write calls fn with a repository client that uses the registry itself and no mirror.
func (c *Client) write(ctx context.Context, op, url, subject string, access Access,
	fn func(context.Context, *remote.Repository) error,
) error {
	e, err := c.endpoints.Endpoint(url, access)
	if err != nil {
		return err
	}
	requests, x := e.Begin(ctx)
	err = fn(requests, e.Writable())
	if err == nil {
		return nil
	}
	failure := x.Error(op, subject, err)
	if errors.Is(failure, ocierr.ErrUnauthorized) && failure.Hint == credentials.HintGiven {
		failure.Hint = hintPush
		if op == opDelete {
			failure.Hint = hintDelete
		}
	}
	return brokeOff(failure, err)
}

// brokeOff replaces ErrIntegrity by ErrUnreachable if the connection broke. A broken connection does not prove that the
// content is wrong.
func brokeOff(err, cause error) error {
	var failure *ocierr.Error
	if errors.As(err, &failure) && errors.Is(err, ocierr.ErrIntegrity) && errors.Is(cause, io.ErrUnexpectedEOF) {
		failure.Kind, failure.Detail = ocierr.ErrUnreachable, "the connection broke"
	}
	return err
}
