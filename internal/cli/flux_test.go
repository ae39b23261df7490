// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"

	fluxoci "github.com/fluxcd/pkg/oci"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
)

// flux returns Flux's own client for registries.
func (b *bed) flux() *fluxoci.Client {
	b.Helper()
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(b.CA()) {
		b.Fatal("the registry's certificate cannot be read")
	}
	return fluxoci.NewClient([]crane.Option{
		crane.WithTransport(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities,
			MinVersion: tls.VersionTLS12}}),
		crane.WithAuth(&authn.Basic{Username: b.Username(), Password: b.Password()}),
	})
}

// TestFluxReadsAndIsRead exchanges artifacts with Flux's own library in both directions.
func TestFluxReadsAndIsRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("dir/one.yaml", configMap)
	b.write("dir/base/two.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: two\n")
	want := b.read(b.path("dir"))

	theirs, err := b.flux().Push(t.Context(), b.Host()+"/theirs:v1", b.path("dir"),
		fluxoci.WithPushMetadata(fluxoci.Metadata{
			Source: "https://example.com/repo", Revision: "main@sha1:0123",
		}))
	if err != nil {
		t.Fatal(err)
	}
	got := decode[pulled](t, b.ok("pull", b.at("theirs:v1"), "--dir", b.path("out"), "-o", "json"))
	if got.Format != "Flux" || b.Host()+"/theirs@"+got.Digest != theirs {
		t.Errorf("pulled %+v of %s", got, theirs)
	}
	if diff := cmp.Diff(want, b.read(b.path("out"))); diff != "" {
		t.Errorf("pulled of Flux (-want +got)\n%s", diff)
	}

	ours := decode[pushed](t, b.ok("push", b.path("dir"), b.at("ours:v1"), "--source", "https://example.com/repo", "-o",
		"json"))
	metadata, err := b.flux().Pull(t.Context(), b.Host()+"/ours:v1", b.path("back"))
	if err != nil {
		t.Fatal(err)
	}
	if metadata.Digest != b.Host()+"/ours@"+ours.Digest || metadata.Source != "https://example.com/repo" {
		t.Errorf("Flux pulled %+v, pushed was %+v", metadata, ours)
	}
	if diff := cmp.Diff(want, b.read(b.path("back"))); diff != "" {
		t.Errorf("pulled by Flux (-want +got)\n%s", diff)
	}
}
