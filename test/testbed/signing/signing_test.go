// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

var someone = signing.Identity{Issuer: "https://issuer.test", Subject: "someone@example.com"}

func start(t *testing.T, referrersAPI bool) (signing.Artifact, *remote.Repository) {
	t.Helper()
	handler := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(referrersAPI))
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	registry := signing.Registry{Host: strings.TrimPrefix(srv.URL, "http://"), PlainHTTP: true}
	repository, err := remote.NewRepository(registry.Host + "/a/b")
	if err != nil {
		t.Fatal(err)
	}
	repository.PlainHTTP = true
	desc, err := oras.PackManifest(t.Context(), repository, oras.PackManifestVersion1_1, "application/x",
		oras.PackManifestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	artifact, err := registry.Artifact("a/b", desc.Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	return artifact, repository
}

// TestPushedSignaturesAreFound checks that a client of the distribution specification finds all signatures, with and
// without the referrers API, and the legacy signature under its tag.
func TestPushedSignaturesAreFound(t *testing.T) {
	t.Parallel()
	for _, api := range []bool{true, false} {
		artifact, repository := start(t, api)
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		sigstore, notary := signing.NewSigstore(), signing.NewNotary("someone", time.Now().Add(time.Hour))
		ctx := t.Context()
		for _, sign := range []func() error{
			func() error { return artifact.SignKeyed(ctx, key) },
			func() error { return sigstore.SignKeyless(ctx, artifact, someone) },
			func() error { return artifact.SignKeyedBundle(ctx, key) },
			func() error { return sigstore.SignKeylessBundle(ctx, artifact, someone) },
			func() error { return notary.Sign(ctx, artifact) },
		} {
			if err := sign(); err != nil {
				t.Fatal(err)
			}
		}
		referrers := 0
		subject := ocispec.Descriptor{Digest: digest.Digest(artifact.Digest())}
		count := func(list []ocispec.Descriptor) error { referrers += len(list); return nil }
		if err := repository.Referrers(ctx, subject, "", count); err != nil {
			t.Fatal(err)
		}
		if referrers != 3 {
			t.Errorf("referrers API %v: %d referrers, want 3", api, referrers)
		}
		_, data, err := oras.FetchBytes(ctx, repository, artifact.Tag(), oras.DefaultFetchBytesOptions)
		if err != nil {
			t.Fatal(err)
		}
		var manifest ocispec.Manifest
		if err := json.Unmarshal(data, &manifest); err != nil {
			t.Fatal(err)
		}
		if len(manifest.Layers) != 1 || manifest.Layers[0].Annotations[signing.AnnotationLog] == "" {
			t.Errorf("the tag has the layers %+v", manifest.Layers)
		}
	}
}

// TestBundlesVerify checks that cosign's library verifies a bundle by the trusted root of its Sigstore, with all
// services.
func TestBundlesVerify(t *testing.T) {
	t.Parallel()
	sigstore := signing.NewSigstore()
	material, err := root.NewTrustedRootFromJSON(sigstore.TrustedRoot())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	sum := bytes.Repeat([]byte{7}, 32)
	statement := signing.Statement(signing.PredicateSign, digest.NewDigestFromBytes(digest.SHA256, sum).String())
	made := sigstore.Certify(someone, now.Add(-time.Minute), false).Bundle(statement)
	sigstore.Log(made, now)
	sigstore.Stamp(made, now)
	signed, err := bundle.NewBundle(made)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := verify.NewVerifier(material, verify.WithSignedCertificateTimestamps(1),
		verify.WithTransparencyLog(1), verify.WithIntegratedTimestamps(1), verify.WithSignedTimestamps(1))
	if err != nil {
		t.Fatal(err)
	}
	identity, err := verify.NewShortCertificateIdentity(someone.Issuer, "", someone.Subject, "")
	if err != nil {
		t.Fatal(err)
	}
	policy := verify.NewPolicy(verify.WithArtifactDigest("sha256", sum), verify.WithCertificateIdentity(identity))
	if _, err := verifier.Verify(signed, policy); err != nil {
		t.Error(err)
	}
}
