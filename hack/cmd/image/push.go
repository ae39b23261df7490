/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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

// push copies what a layout holds to a registry and tags it, with the credentials of the Docker configuration.
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
