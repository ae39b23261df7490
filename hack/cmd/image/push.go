// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

// push copies the content of a layout to a registry and tags it, with the credentials of the Docker configuration.
func push(ctx context.Context, layout string, index ocispec.Descriptor, ref registry.Reference, plainHTTP bool) error {
	blobs, err := oci.NewStorage(layout)
	if err != nil {
		return err
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return err
	}
	repository := &remote.Repository{
		Reference: ref,
		PlainHTTP: plainHTTP,
		Client: &auth.Client{
			Client:     retry.DefaultClient,
			Cache:      auth.NewCache(),
			Credential: credentials.Credential(store),
		},
	}
	if err := oras.CopyGraph(ctx, blobs, repository, index, oras.DefaultCopyGraphOptions); err != nil {
		return err
	}
	document, err := blobs.Fetch(ctx, index)
	if err != nil {
		return err
	}
	defer document.Close()
	return repository.PushReference(ctx, index, document, ref.Reference)
}
