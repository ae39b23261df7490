// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"testing"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

func TestArtifactIdentity(t *testing.T) {
	t.Parallel()
	whole := &addonsv1.ResolvedArtifact{Digest: "sha256:1"}
	layer := &addonsv1.ResolvedArtifact{Digest: "sha256:1", LayerMediaType: "a"}
	other := &addonsv1.ResolvedArtifact{Digest: "sha256:1", LayerMediaType: "b"}
	if ArtifactIdentity(whole) != whole.Digest || ArtifactIdentity(layer) == ArtifactIdentity(other) ||
		ArtifactIdentity(layer) == whole.Digest {
		t.Error("artifacts with different layers must have different identities")
	}
	seen := map[string]bool{whole.Digest: true}
	for _, artifact := range []addonsv1.ResolvedArtifact{
		{Format: "Flux"}, {Format: "Files"}, {Format: "Flux", Path: "a"}, {Format: "Flux", Path: "b"},
		{Format: "Flux", Templating: addonsv1.TemplatingHelm},
		{Format: "Flux", Path: "Helm"}, {Format: "Flux", LayerMediaType: "a"},
	} {
		artifact.Digest = whole.Digest
		if identity := ArtifactIdentity(&artifact); seen[identity] {
			t.Errorf("%+v has the identity of another artifact", artifact)
		} else {
			seen[identity] = true
		}
	}
}

// TestSourceDigest checks that a source without later fields has the same digest as before these fields existed.
func TestSourceDigest(t *testing.T) {
	t.Parallel()
	source := addonsv1.ArtifactSource{URL: "oci://registry.example/x", Ref: addonsv1.ArtifactReference{Tag: "1"}}
	before, err := DigestOf(source.URL, source.Ref, source.Insecure, source.LayerSelector)
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for _, change := range []func(*addonsv1.ArtifactSource){
		func(*addonsv1.ArtifactSource) {}, func(s *addonsv1.ArtifactSource) { s.Format = "Flux" },
		func(s *addonsv1.ArtifactSource) { s.Path = "Flux" },
		func(s *addonsv1.ArtifactSource) { s.Templating = addonsv1.TemplatingHelm },
	} {
		changed := source
		change(&changed)
		digest, err := SourceDigest(&changed)
		if err != nil {
			t.Fatal(err)
		}
		digests[digest] = true
	}
	source.Templating = addonsv1.TemplatingNone
	if same, err := SourceDigest(&source); err != nil || same != before || !digests[before] || len(digests) != 4 {
		t.Errorf("digests %v of sources that ask for different things, without %s", digests, before)
	}
}
