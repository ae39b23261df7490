// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"maps"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/flight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	opResolve = "resolve"
	opTags    = "list tags of"

	hintAlgorithm = "push it with a sha256 digest"

	// maxConfig is the maximum size of a config blob that is read for its version, in bytes.
	maxConfig = 1 << 20
)

// Artifact is the result of resolving a reference. With the fields of the manifest, the caller can refuse an artifact
// of a wrong kind before a pull.
type Artifact struct {
	// URL is the repository, as in Source.
	URL string
	// Tag is the resolved tag. It is empty for a reference by digest.
	Tag string
	// Version is the version of the artifact. If the tag is a version, Version is the tag with "+" for "_". Otherwise,
	// Version is the annotation org.opencontainers.image.version, or the field "version" of a JSON config blob. It is
	// empty if none of these is a version.
	Version string
	// Digest is the digest of the manifest, "sha256:…".
	Digest string
	// MediaType is the artifact type. If the manifest declares none, MediaType is the media type of the config.
	MediaType string
	// ConfigMediaType, ArtifactType and Layers are fields of the manifest. There is at least one layer.
	ConfigMediaType string
	ArtifactType    string
	Layers          []Layer
	// Annotations are the annotations of the manifest. Annotations of the manifest and the layers have no limit of
	// their own. The whole manifest has at most 4 MiB.
	Annotations map[string]string
}

// Resolve finds the artifact that a source refers to. It takes at most Options.Timeout, and at most Options.PullTimeout
// more if it lists tags. Concurrent calls with equal sources share one resolution. Errors are of all kinds. Layers are
// not pulled, so ErrTooLarge is never about a layer.
func (c *Client) Resolve(ctx context.Context, src Source) (Artifact, error) {
	if err := src.Validate(); err != nil {
		return Artifact{}, err
	}
	subject := src.URL + src.Ref.String()
	if src.Ref.Digest != "" {
		if artifact, ok := c.resolveStored(src, subject); ok {
			return artifact, nil
		}
	}
	e, err := c.endpoints.Endpoint(src.URL, src.Access)
	if err != nil {
		return Artifact{}, err
	}
	limit := c.opts.Timeout
	if src.Ref.Semver+src.Ref.TagFilter != "" {
		limit += c.opts.PullTimeout
	}
	call := flight.Call{Key: tenantKey(ctx, e.Key, src.Ref.String()), Limit: limit, Op: opResolve, Subject: subject}
	return flight.Do(ctx, &c.resolves, call, func(ctx context.Context) (Artifact, error) {
		return c.resolve(ctx, e, src.Ref, subject)
	})
}

// resolveStored resolves a digest from the store. It sends no request.
func (c *Client) resolveStored(src Source, subject string) (Artifact, bool) {
	m, err := c.storedManifest(subject, digest.Digest(src.Ref.Digest))
	if err != nil {
		return Artifact{}, false
	}
	version := plainVersion(m.Annotations[ocispec.AnnotationVersion])
	if version == "" && m.hasConfigVersion() {
		data, err := c.store.Read(m.Config.Digest, maxConfig)
		if err != nil {
			return Artifact{}, false
		}
		version = configVersion(data)
	}
	return m.artifact(src.URL, "", version), true
}

func (c *Client) resolve(ctx context.Context, e *endpoint.Endpoint, ref Reference, subject string) (Artifact, error) {
	if ref.Digest != "" {
		m, err := c.manifest(ctx, e, digest.Digest(ref.Digest))
		if err != nil {
			return Artifact{}, err
		}
		return c.describe(ctx, e, m, "")
	}
	tag := tagName(ref.Tag)
	if tag == "" {
		var err error
		if tag, err = c.chooseTag(ctx, e, ref, subject); err != nil {
			return Artifact{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	m, err := c.manifestOfTag(ctx, e, tag)
	if err != nil {
		return Artifact{}, err
	}
	if m.digest.Algorithm() != digest.SHA256 {
		return Artifact{}, &ocierr.Error{Op: opResolve, Subject: subject, Kind: ocierr.ErrUnsupported,
			Detail: "the registry returned a digest of the unsupported algorithm " + clip(m.digest.Algorithm().String()),
			Hint:   hintAlgorithm}
	}
	return c.describe(ctx, e, m, tag)
}

// manifestOfTag gets the digest of a tag by HEAD and then the manifest. If HEAD fails and is not final, it gets the
// manifest by GET, see headManifest.
func (c *Client) manifestOfTag(ctx context.Context, e *endpoint.Endpoint, tag string) (*manifest, error) {
	subject := e.URL + ":" + tag
	found, isFinal, err := headManifest(ctx, e, opResolve, subject, tag)
	switch {
	case err == nil:
		return c.manifest(ctx, e, found)
	case isFinal:
		return nil, err
	default:
		return c.pullManifest(ctx, e, subject, tag, "")
	}
}

// chooseTag lists the tags and returns the highest tag that matches the reference.
func (c *Client) chooseTag(ctx context.Context, e *endpoint.Endpoint, ref Reference, subject string) (string, error) {
	choice, err := newTagChoice(ref)
	if err != nil {
		return "", &ocierr.Error{Op: opResolve, Subject: subject, Kind: ocierr.ErrInvalidReference, Detail: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.PullTimeout)
	defer cancel()
	ctx, x := e.Begin(ctx)
	repository := e.Repository()
	repository.Client = tagsClient{Client: repository.Client, subject: e.URL, timeout: c.opts.Timeout}
	// Some registries ignore the requested page size and send all tags in one page.
	repository.MaxMetadataBytes = maxTagPageBytes
	pages := tagPages{}
	err = repository.Tags(ctx, "", func(tags []string) error {
		if pages.repeated(tags) {
			return &ocierr.Error{Op: opTags, Subject: e.URL, Kind: ocierr.ErrUnexpected,
				Detail: "the pages of the registry's tag list form a loop",
				Hint:   "use a tag or a digest instead of a range or a filter"}
		}
		for _, tag := range tags {
			choice.consider(tag)
			// A filter may need much time for many long tags.
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if choice.seen > maxTags {
			return tooManyTags(e.URL)
		}
		return nil
	})
	if err != nil {
		return "", x.Error(opTags, e.URL, err)
	}
	if choice.tag == "" {
		return "", choice.none(subject)
	}
	return choice.tag, nil
}

// describe returns the artifact with its version. It reads the config blob only if the tag and the annotations have no
// version.
func (c *Client) describe(ctx context.Context, e *endpoint.Endpoint, m *manifest, tag string) (Artifact, error) {
	version := versionText(tag)
	if version == "" {
		version = plainVersion(m.Annotations[ocispec.AnnotationVersion])
	}
	if version == "" && m.hasConfigVersion() {
		data, err := c.blob(ctx, e, m.Config, maxConfig)
		if err != nil {
			return Artifact{}, err
		}
		version = configVersion(data)
	}
	return m.artifact(e.URL, tag, version), nil
}

// hasConfigVersion reports whether the config blob may contain a version. Configs of the two generic media types
// contain no version. Large configs are not read.
func (m *manifest) hasConfigVersion() bool {
	switch m.Config.MediaType {
	case ocispec.MediaTypeImageConfig, ocispec.MediaTypeEmptyJSON:
		return false
	}
	return m.Config.Size <= maxConfig
}

func (m *manifest) artifact(url, tag, version string) Artifact {
	return Artifact{
		URL: url, Tag: tag, Version: version, Digest: m.digest.String(), MediaType: m.artifactType(),
		ConfigMediaType: m.Config.MediaType, ArtifactType: m.ArtifactType, Layers: m.layers(),
		Annotations: maps.Clone(m.Annotations),
	}
}
