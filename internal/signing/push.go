// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

const (
	contentAnnotation   = "dev.sigstore.bundle.content"
	predicateAnnotation = "dev.sigstore.bundle.predicateType"
)

// Marshal returns a bundle as JSON.
func Marshal(bundle *protobundle.Bundle) ([]byte, error) {
	data, err := protojson.Marshal(bundle)
	if err != nil {
		return nil, err
	}
	// protojson varies the white space, so the output is compacted.
	var compact bytes.Buffer
	err = json.Compact(&compact, data)
	return compact.Bytes(), err
}

// Push stores a bundle with a statement as a referrer of the manifest that the statement describes. It returns the
// digest of the referrer. If the registry has no API for referrers, oras-go stores the referrer under the tag that the
// distribution specification defines.
func Push(ctx context.Context, to content.Pusher, bundle *protobundle.Bundle, predicateType string,
	subject ocispec.Descriptor,
) (string, error) {
	data, err := Marshal(bundle)
	if err != nil {
		return "", err
	}
	layer := content.NewDescriptorFromBytes(BundleMediaType, data)
	// The annotations of a tag do not belong to the manifest.
	subject = ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: BundleMediaType, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer},
		Subject:     &subject,
		Annotations: map[string]string{contentAnnotation: "dsse-envelope", predicateAnnotation: predicateType},
	})
	if err != nil {
		return "", err
	}
	root := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, manifest)
	empty := ocispec.Descriptor{MediaType: ocispec.MediaTypeEmptyJSON,
		Digest: digest.FromBytes(ocispec.DescriptorEmptyJSON.Data), Size: int64(len(ocispec.DescriptorEmptyJSON.Data))}
	for _, blob := range []struct {
		ocispec.Descriptor
		data []byte
	}{{empty, ocispec.DescriptorEmptyJSON.Data}, {layer, data}, {root, manifest}} {
		err := to.Push(ctx, blob.Descriptor, bytes.NewReader(blob.data))
		if err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
			return "", err
		}
	}
	return root.Digest.String(), nil
}
