// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish pushes the artifacts of a release to a registry, in this order: content, signatures, tags. So a
// client that uses a tag finds the artifact complete and signed. The package does not build artifacts: callers pass
// them.
package publish

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/pack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/signing"
)

// Artifact is an image or another artifact.
type Artifact struct {
	// Root is the manifest or index. From contains it and all content to which it refers.
	Root ocispec.Descriptor
	From content.ReadOnlyStorage
	// Attestations are signed statements about the artifact, or about a part of it.
	Attestations []Attestation
}

// Attestation is a statement about a manifest.
type Attestation struct {
	Subject       ocispec.Descriptor
	PredicateType string
	Predicate     json.RawMessage
}

// Packed returns a packed artifact.
func Packed(ctx context.Context, packed *pack.Artifact) (Artifact, error) {
	from := memory.New()
	for _, blob := range append(packed.Blobs(), packed.Manifest) {
		if err := from.Push(ctx, blob.Descriptor, bytes.NewReader(blob.Content)); err != nil {
			return Artifact{}, err
		}
	}
	return Artifact{Root: packed.Manifest.Descriptor, From: from}, nil
}

// Target is a registry.
type Target struct {
	// PlainHTTP pushes over http.
	PlainHTTP bool
	// Key signs the artifact; nil pushes without signatures.
	Key crypto.PrivateKey
}

// Push pushes an artifact, with the credentials of the Docker configuration. With a key, it signs the artifact and adds
// the attestations. It sets the tag of the reference last.
func (t Target) Push(ctx context.Context, artifact Artifact, reference string) error {
	ref, err := registry.ParseReference(reference)
	if err != nil {
		return fmt.Errorf("the reference %q: %w", reference, err)
	}
	repository, err := t.repository(ref)
	if err != nil {
		return err
	}
	err = oras.CopyGraph(ctx, artifact.From, repository, artifact.Root, oras.DefaultCopyGraphOptions)
	if err != nil {
		return err
	}
	if t.Key != nil {
		if err := t.sign(ctx, repository, artifact); err != nil {
			return fmt.Errorf("%s was pushed, but neither signed completely nor tagged: %w", artifact.Root.Digest, err)
		}
	}
	document, err := artifact.From.Fetch(ctx, artifact.Root)
	if err != nil {
		return err
	}
	defer func() { _ = document.Close() }()
	return repository.PushReference(ctx, artifact.Root, document, ref.Reference)
}

func (t Target) repository(ref registry.Reference) (*remote.Repository, error) {
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, err
	}
	return &remote.Repository{
		Reference: ref,
		PlainHTTP: t.PlainHTTP,
		Client: &auth.Client{
			Client:     retry.DefaultClient,
			Cache:      auth.NewCache(),
			Credential: credentials.Credential(store),
		},
	}, nil
}

// sign signs an artifact and its attestations.
func (t Target) sign(ctx context.Context, repository *remote.Repository, artifact Artifact) error {
	signature := Attestation{Subject: artifact.Root, PredicateType: signing.SignPredicate,
		Predicate: json.RawMessage("{}")}
	for _, one := range append([]Attestation{signature}, artifact.Attestations...) {
		statement, err := signing.StatementWith(one.Subject, one.PredicateType, one.Predicate)
		if err != nil {
			return err
		}
		bundle, err := signing.Attestation(t.Key, statement)
		if err != nil {
			return err
		}
		if _, err := signing.Push(ctx, repository, bundle, one.PredicateType, one.Subject); err != nil {
			return err
		}
	}
	return nil
}
