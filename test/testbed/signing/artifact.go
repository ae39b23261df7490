// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// maxManifest leaves room for manifests that a verifier must refuse for their size.
const maxManifest = 64 << 20

// Registry is the registry to which signatures are pushed.
type Registry struct {
	// Host is "host:port".
	Host string
	// Client trusts the registry's certificate; nil is http.DefaultClient.
	Client *http.Client
	// Username and Password may push. Both are empty for a registry without accounts.
	Username, Password string
	// PlainHTTP uses HTTP instead of HTTPS.
	PlainHTTP bool
}

// Artifact is a manifest in a repository, to be signed.
type Artifact struct {
	repository *remote.Repository
	digest     digest.Digest
}

// Artifact returns the manifest with a digest ("sha256:…") in a repository ("path/to/chart"). It sends no request.
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

// Digest returns the digest of the artifact.
func (a Artifact) Digest() string { return a.digest.String() }

// Layer is a blob of a signature.
type Layer struct {
	MediaType   string
	Data        []byte
	Annotations map[string]string
}

// Digest returns the digest of the layer's data.
func (l Layer) Digest() string { return digest.FromBytes(l.Data).String() }

// Referrer is a manifest that refers to the artifact that it signs.
type Referrer struct {
	// ArtifactType is the type that the manifest declares. ConfigType declares the type in the older way, by the media
	// type of the config. Its default is the media type of an empty config.
	ArtifactType, ConfigType string
	Annotations              map[string]string
	Layers                   []Layer
}

// PushTag stores layers as cosign's legacy signatures, under the tag made of the artifact's digest. The layers replace
// earlier signatures.
func (a Artifact) PushTag(ctx context.Context, layers ...Layer) error {
	const config = `{"architecture":"","os":"","config":{},"rootfs":{"type":"layers","diff_ids":[]}}`
	return a.pushManifest(ctx, ocispec.Manifest{}, a.Tag(), ocispec.MediaTypeImageConfig, config, layers)
}

// Tag returns the tag of cosign's legacy signatures of the artifact.
func (a Artifact) Tag() string { return strings.Replace(a.Digest(), ":", "-", 1) + ".sig" }

// PushReferrer stores a manifest that refers to the artifact. If the registry has no referrers API, PushReferrer stores
// the list under a tag, as the distribution specification defines.
func (a Artifact) PushReferrer(ctx context.Context, referrer Referrer) error {
	subject, err := a.repository.Resolve(ctx, a.Digest())
	if err != nil {
		return fmt.Errorf("look up the artifact: %w", err)
	}
	manifest := ocispec.Manifest{
		ArtifactType: referrer.ArtifactType, Annotations: referrer.Annotations, Subject: &subject,
	}
	configType := cmp.Or(referrer.ConfigType, ocispec.MediaTypeEmptyJSON)
	return a.pushManifest(ctx, manifest, "", configType, "{}", referrer.Layers)
}

func (a Artifact) pushBlob(ctx context.Context, mediaType string, data []byte) (ocispec.Descriptor, error) {
	desc, err := oras.PushBytes(ctx, a.repository.Blobs(), mediaType, data)
	if err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return ocispec.Descriptor{}, fmt.Errorf("push a blob of a signature: %w", err)
	}
	return desc, nil
}

// Manifest returns the artifact's manifest.
func (a Artifact) Manifest(ctx context.Context) ([]byte, error) {
	desc, err := a.repository.Resolve(ctx, a.Digest())
	if err != nil {
		return nil, fmt.Errorf("look up the artifact: %w", err)
	}
	return content.FetchAll(ctx, a.repository.Manifests(), desc)
}

// pushManifest completes a manifest with a config and layers, and pushes all under a tag. Without a tag, the manifest
// has its digest only.
func (a Artifact) pushManifest(
	ctx context.Context, manifest ocispec.Manifest, tag, configType, config string, layers []Layer,
) error {
	manifest.SchemaVersion, manifest.MediaType = 2, ocispec.MediaTypeImageManifest
	var err error
	if manifest.Config, err = a.pushBlob(ctx, configType, []byte(config)); err != nil {
		return err
	}
	for _, layer := range layers {
		desc, err := a.pushBlob(ctx, layer.MediaType, layer.Data)
		if err != nil {
			return err
		}
		desc.Annotations = layer.Annotations
		manifest.Layers = append(manifest.Layers, desc)
	}
	data := must(json.Marshal(manifest))
	desc := ocispec.Descriptor{MediaType: manifest.MediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	reference := cmp.Or(tag, desc.Digest.String())
	if err := a.repository.PushReference(ctx, desc, bytes.NewReader(data), reference); err != nil {
		return fmt.Errorf("push the manifest of a signature: %w", err)
	}
	return nil
}
