// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/jsonvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/flight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	opManifest = "get manifest"

	// maxLayers is the maximum number of layers. Container runtimes allow 127 layers, and charts have a few.
	maxLayers = 1000

	mediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	mediaTypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// manifest is an image manifest with its digest.
type manifest struct {
	digest digest.Digest
	ocispec.Manifest
}

// storedManifest returns a manifest from the store. It returns ErrNotStored if the store does not have the manifest.
func (c *Client) storedManifest(subject string, dgst digest.Digest) (*manifest, error) {
	data, err := c.store.Read(dgst, endpoint.MaxMetadata)
	c.opts.Observer.cache(CacheManifest, err == nil)
	if err != nil {
		return nil, err
	}
	return parseManifest(subject, dgst, data)
}

// manifest returns a manifest from the store, or pulls it.
func (c *Client) manifest(ctx context.Context, e *endpoint.Endpoint, dgst digest.Digest) (*manifest, error) {
	subject := e.URL + "@" + dgst.String()
	m, err := c.storedManifest(subject, dgst)
	if !errors.Is(err, ocierr.ErrNotStored) {
		return m, err
	}
	call := flight.Call{Key: tenantKey(ctx, e.Key, dgst.String()), Limit: c.opts.Timeout, Op: opManifest, Subject: subject}
	return flight.Do(ctx, &c.manifests, call, func(ctx context.Context) (*manifest, error) {
		// Another pull may have ended since the check above.
		if data, err := c.store.Read(dgst, endpoint.MaxMetadata); err == nil {
			return parseManifest(subject, dgst, data)
		}
		return c.pullManifest(ctx, e, subject, dgst.String(), dgst)
	})
}

// pullManifest pulls a manifest by tag or digest and stores it. If want is not empty, the manifest must have this
// digest. If a mirror sends a wrong manifest, pullManifest repeats the request without this mirror.
func (c *Client) pullManifest(ctx context.Context, e *endpoint.Endpoint, subject, reference string,
	want digest.Digest,
) (*manifest, error) {
	requests, x := e.Begin(ctx)
	var before error
	for {
		m, err := c.pullManifestOnce(requests, x, e, subject, reference, want)
		if before != nil && errors.Is(err, ocierr.ErrUnreachable) {
			return nil, before // the registry is unreachable, so the mirror's failure is the result
		}
		var failure *ocierr.Error
		isContent := want != "" && errors.Is(err, ocierr.ErrUnsupported) // the digest proves that every host has this content
		if !errors.As(err, &failure) || isContent || !x.Exclude(failure) {
			return m, err
		}
		before = err
	}
}

func (c *Client) pullManifestOnce(ctx context.Context, x *endpoint.Exchange, e *endpoint.Endpoint,
	subject, reference string, want digest.Digest,
) (*manifest, error) {
	repository := e.Repository()
	repository.Client = manifestClient{Client: repository.Client, subject: subject}
	desc, body, err := repository.Manifests().FetchReference(ctx, reference)
	if err != nil {
		return nil, x.Error(opManifest, subject, err)
	}
	defer func() { _ = body.Close() }() // the needed part has been read
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, x.Error(opManifest, subject, err)
	}
	if want == "" {
		want = desc.Digest
	}
	got := want.Algorithm().FromBytes(data)
	if got != want {
		return nil, &ocierr.Error{Op: opManifest, Subject: subject, Kind: ocierr.ErrIntegrity,
			Detail: "the registry sent different content"}
	}
	m, err := parseManifest(subject, got, data)
	if err != nil {
		return nil, err
	}
	if err := c.store.WriteBytes(ocispec.Descriptor{Digest: got, Size: int64(len(data))}, data); err != nil {
		return nil, x.Error(opManifest, subject, err)
	}
	return m, nil
}

// manifestClient limits the size of a manifest before the protocol library reads it, because the library hashes the
// whole body. It also sets the length of a chunked response. Without a length, the library would send a second request,
// which a registry may refuse.
type manifestClient struct {
	remote.Client
	subject string
}

// Do implements remote.Client.
func (c manifestClient) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.Client.Do(req)
	if err != nil || req.Method != http.MethodGet || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	size := resp.ContentLength
	if size < 0 {
		var data []byte
		data, err = io.ReadAll(io.LimitReader(resp.Body, endpoint.MaxMetadata+1))
		_ = resp.Body.Close() // the needed part has been read
		if err != nil {
			return nil, err
		}
		size = int64(len(data))
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), size
	}
	if size > endpoint.MaxMetadata {
		_ = resp.Body.Close() // the body is not read
		return nil, &ocierr.Error{Op: opManifest, Subject: c.subject, Kind: ocierr.ErrTooLarge,
			Detail: fmt.Sprintf("over %d bytes", endpoint.MaxMetadata)}
	}
	resp.Body = &valuesBody{ReadCloser: resp.Body, limit: maxValues, tooMany: tooManyValues(c.subject)}
	return resp, nil
}

// parseManifest parses an image manifest. It returns ErrUnsupported for other content, for example an index or a schema
// 1 manifest. It returns ErrTooLarge for a manifest with too many values or layers.
func parseManifest(subject string, dgst digest.Digest, data []byte) (*manifest, error) {
	unsupported := func(format string, args ...any) (*manifest, error) {
		return nil, &ocierr.Error{Op: "read manifest", Subject: subject, Kind: ocierr.ErrUnsupported,
			Detail: fmt.Sprintf(format, args...)}
	}
	if jsonvalues.Count(data) > maxValues {
		return nil, tooManyValues(subject)
	}
	var probe struct {
		MediaType string            `json:"mediaType"`
		Manifests []json.RawMessage `json:"manifests"`
	}
	m := &manifest{digest: dgst}
	if json.Unmarshal(data, &probe) != nil || json.Unmarshal(data, &m.Manifest) != nil {
		return unsupported("it is not a JSON object of the image specification")
	}
	switch {
	case probe.MediaType == ocispec.MediaTypeImageIndex, probe.MediaType == mediaTypeDockerList,
		probe.MediaType == "" && probe.Manifests != nil:
		return unsupported("it is an index of several manifests: name one of them by its digest")
	case probe.MediaType != "" && probe.MediaType != ocispec.MediaTypeImageManifest &&
		probe.MediaType != mediaTypeDockerManifest:
		return unsupported("its media type is %q", clip(probe.MediaType))
	case m.Config.Digest == "" || len(m.Layers) == 0:
		return unsupported("it has no config or no layers")
	case len(m.Layers) > maxLayers:
		return nil, &ocierr.Error{Op: "read manifest", Subject: subject, Kind: ocierr.ErrTooLarge,
			Detail: fmt.Sprintf("more than %d layers", maxLayers)}
	}
	for _, desc := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if desc.Digest.Validate() != nil || desc.Size < 0 {
			return unsupported("it has a descriptor with an invalid digest or size")
		}
	}
	if m.MediaType == "" {
		m.MediaType = ocispec.MediaTypeImageManifest
	}
	return m, nil
}

// artifactType returns the artifact type. If the manifest declares none, artifactType returns the media type of the
// config.
func (m *manifest) artifactType() string {
	if m.ArtifactType != "" {
		return m.ArtifactType
	}
	return m.Config.MediaType
}

func (m *manifest) content(c *Client, url string, access Access) *Content {
	return &Content{
		URL: url, Digest: m.digest.String(), MediaType: m.MediaType,
		ConfigMediaType: m.Config.MediaType, ArtifactType: m.ArtifactType, Layers: m.layers(),
		Annotations: maps.Clone(m.Annotations),
		client:      c,
		pull: func(ctx context.Context, layer ocispec.Descriptor) error {
			e, err := c.endpoints.Endpoint(url, access)
			if err != nil {
				return err
			}
			return c.pull(ctx, e, layer)
		},
	}
}

func (m *manifest) layers() []Layer {
	layers := make([]Layer, 0, len(m.Layers))
	for _, layer := range m.Manifest.Layers {
		layers = append(layers, Layer{
			MediaType: layer.MediaType, Digest: layer.Digest.String(), Size: layer.Size,
			Annotations: maps.Clone(layer.Annotations),
		})
	}
	return layers
}

// clip shortens a text of a registry for a message.
func clip(text string) string { return truncate.Text(text, 100) }

// configVersion returns the field "version" of a JSON config blob. Helm and other tools write the version there.
// configVersion returns "" if the text is not a plain version.
func configVersion(data []byte) string {
	var config struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(bytes.TrimSpace(data), &config) != nil {
		return ""
	}
	return plainVersion(config.Version)
}

// plainVersion returns text if the text is safe as a version in a status field. Otherwise, it returns "".
func plainVersion(text string) string {
	if tagPattern.MatchString(tagName(text)) {
		return text
	}
	return ""
}
