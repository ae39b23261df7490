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
	srv := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(referrersAPI)))
	t.Cleanup(srv.Close)
	registry := signing.Registry{Host: strings.TrimPrefix(srv.URL, "http://"), PlainHTTP: true}
	repository, err := remote.NewRepository(registry.Host + "/a/b")
	if err != nil {
		t.Fatal(err)
	}
	repository.PlainHTTP = true
	desc, err := oras.PackManifest(t.Context(), repository, oras.PackManifestVersion1_1, "application/x", oras.PackManifestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	artifact, err := registry.Artifact("a/b", desc.Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	return artifact, repository
}

// Whatever the registry knows of referrers, a client of the specification finds
// all that was pushed, and the legacy signature under its tag.
func TestWhatIsPushedIsFound(t *testing.T) {
	t.Parallel()
	for _, api := range []bool{true, false} {
		artifact, repository := start(t, api)
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		sigstore, err := signing.NewSigstore()
		if err != nil {
			t.Fatal(err)
		}
		notary, err := signing.NewNotary("someone", time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
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
		if err := repository.Referrers(ctx, subject, "", func(list []ocispec.Descriptor) error { referrers += len(list); return nil }); err != nil {
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

// The Sigstore's own trusted root proves its bundles, with every one of its
// services, to the library that cosign uses.
func TestBundlesAreProven(t *testing.T) {
	t.Parallel()
	sigstore, err := signing.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := sigstore.TrustedRoot()
	if err != nil {
		t.Fatal(err)
	}
	material, err := root.NewTrustedRootFromJSON(trusted)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	by, err := sigstore.Certify(someone, now.Add(-time.Minute), false)
	if err != nil {
		t.Fatal(err)
	}
	sum := bytes.Repeat([]byte{7}, 32)
	statement, err := signing.Statement(signing.PredicateSign, digest.NewDigestFromBytes(digest.SHA256, sum).String())
	if err != nil {
		t.Fatal(err)
	}
	made, err := by.Bundle(statement)
	if err != nil {
		t.Fatal(err)
	}
	if err := sigstore.Log(made, now); err != nil {
		t.Fatal(err)
	}
	if err := sigstore.Stamp(made, now); err != nil {
		t.Fatal(err)
	}
	signed, err := bundle.NewBundle(made)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := verify.NewVerifier(material, verify.WithSignedCertificateTimestamps(1), verify.WithTransparencyLog(1),
		verify.WithIntegratedTimestamps(1), verify.WithSignedTimestamps(1))
	if err != nil {
		t.Fatal(err)
	}
	identity, err := verify.NewShortCertificateIdentity(someone.Issuer, "", someone.Subject, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifier.Verify(signed, verify.NewPolicy(verify.WithArtifactDigest("sha256", sum), verify.WithCertificateIdentity(identity))); err != nil {
		t.Error(err)
	}
}
