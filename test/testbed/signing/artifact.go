// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// maxManifest leaves room for manifests that are too large for others.
const maxManifest = 64 << 20

// Registry is where signatures are pushed to.
type Registry struct {
	// Host is "host:port".
	Host string
	// Client trusts the registry's certificate; nil is http.DefaultClient.
	Client *http.Client
	// Username and Password may push; empty for a registry that asks for none.
	Username, Password string
	// PlainHTTP talks HTTP instead of HTTPS.
	PlainHTTP bool
}

// Artifact is what is signed: a manifest in a repository.
type Artifact struct {
	repository *remote.Repository
	digest     digest.Digest
}

// Artifact returns the manifest with a digest ("sha256:…") in a repository
// ("path/to/chart").
func (r Registry) Artifact(repository, dgst string) (Artifact, error) {
	parsed, err := digest.Parse(dgst)
	if err != nil {
		return Artifact{}, fmt.Errorf("the digest %q: %w", dgst, err)
	}
	remoteRepository, err := remote.NewRepository(r.Host + "/" + repository)
	if err != nil {
		return Artifact{}, err
	}
	remoteRepository.PlainHTTP = r.PlainHTTP
	remoteRepository.MaxMetadataBytes = maxManifest
	client := &auth.Client{Client: r.Client, Cache: auth.NewCache()}
	if r.Username != "" {
		client.Credential = auth.StaticCredential(r.Host, auth.Credential{Username: r.Username, Password: r.Password})
	}
	remoteRepository.Client = client
	return Artifact{repository: remoteRepository, digest: parsed}, nil
}

// Digest returns the digest of what is signed.
func (a Artifact) Digest() string { return a.digest.String() }

// Layer is a blob of a signature.
type Layer struct {
	MediaType   string
	Data        []byte
	Annotations map[string]string
}

// Digest returns the digest of the layer's data.
func (l Layer) Digest() string { return digest.FromBytes(l.Data).String() }

// Referrer is a manifest that refers to what it signs.
type Referrer struct {
	// ArtifactType is what the manifest declares. ConfigType declares it in the
	// older way; empty is an empty config.
	ArtifactType, ConfigType string
	Annotations              map[string]string
	Layers                   []Layer
}

// PushTag stores layers as cosign's legacy signatures, under the tag made of the
// artifact's digest. What is there is replaced.
func (a Artifact) PushTag(ctx context.Context, layers ...Layer) error {
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	var err error
	if manifest.Config, err = a.pushBlob(ctx, ocispec.MediaTypeImageConfig, []byte(`{"architecture":"","os":"","config":{},"rootfs":{"type":"layers","diff_ids":[]}}`)); err != nil {
		return err
	}
	if manifest.Layers, err = a.pushLayers(ctx, layers); err != nil {
		return err
	}
	return a.pushManifest(ctx, manifest, a.Tag())
}

// Tag returns the tag of cosign's legacy signatures of the artifact.
func (a Artifact) Tag() string { return strings.Replace(a.Digest(), ":", "-", 1) + ".sig" }

// PushReferrer stores a manifest that refers to the artifact. Where the registry
// lists no referrers, the list is kept under a tag, as the distribution
// specification says.
func (a Artifact) PushReferrer(ctx context.Context, referrer Referrer) error {
	subject, err := a.repository.Resolve(ctx, a.Digest())
	if err != nil {
		return fmt.Errorf("look up what is signed: %w", err)
	}
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: referrer.ArtifactType, Annotations: referrer.Annotations, Subject: &subject,
	}
	configType := referrer.ConfigType
	if configType == "" {
		configType = ocispec.MediaTypeEmptyJSON
	}
	if manifest.Config, err = a.pushBlob(ctx, configType, []byte("{}")); err != nil {
		return err
	}
	if manifest.Layers, err = a.pushLayers(ctx, referrer.Layers); err != nil {
		return err
	}
	return a.pushManifest(ctx, manifest, "")
}

func (a Artifact) pushLayers(ctx context.Context, layers []Layer) ([]ocispec.Descriptor, error) {
	var out []ocispec.Descriptor
	for _, layer := range layers {
		desc, err := a.pushBlob(ctx, layer.MediaType, layer.Data)
		if err != nil {
			return nil, err
		}
		desc.Annotations = layer.Annotations
		out = append(out, desc)
	}
	return out, nil
}

func (a Artifact) pushBlob(ctx context.Context, mediaType string, data []byte) (ocispec.Descriptor, error) {
	desc, err := oras.PushBytes(ctx, a.repository.Blobs(), mediaType, data)
	if err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return ocispec.Descriptor{}, fmt.Errorf("push a blob of a signature: %w", err)
	}
	return desc, nil
}

// Manifest returns what is signed.
func (a Artifact) Manifest(ctx context.Context) ([]byte, error) {
	desc, err := a.repository.Resolve(ctx, a.Digest())
	if err != nil {
		return nil, fmt.Errorf("look up what is signed: %w", err)
	}
	return content.FetchAll(ctx, a.repository.Manifests(), desc)
}

// pushManifest pushes a manifest under a tag, or only by its digest.
func (a Artifact) pushManifest(ctx context.Context, manifest ocispec.Manifest, tag string) error {
	data, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	desc := ocispec.Descriptor{MediaType: manifest.MediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if tag == "" {
		tag = desc.Digest.String()
	}
	if err := a.repository.PushReference(ctx, desc, bytes.NewReader(data), tag); err != nil {
		return fmt.Errorf("push the manifest of a signature: %w", err)
	}
	return nil
}
