// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sources_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"helm.sh/helm/v3/pkg/provenance"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sources"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/chartrepository"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

func newClient(t *testing.T) *sources.Client {
	t.Helper()
	registries, err := oci.New(oci.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registries.Close)
	return sources.New(registries)
}

// key returns a new key of OpenPGP, and its public part.
func key(t *testing.T) (*openpgp.Entity, []byte) {
	t.Helper()
	entity, err := openpgp.NewEntity("publisher", "", "publisher@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var public bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	return entity, public.Bytes()
}

// TestProvenance verifies a provenance file by a policy, as the resolution of a HelmOp does.
func TestProvenance(t *testing.T) {
	t.Parallel()
	r := chartrepository.Start()
	t.Cleanup(r.Close)
	chart := registry.ChartFiles(map[string]string{"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 1.0.0\n"})
	digest, err := r.Add(chart)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := chart()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "demo-1.0.0.tgz")
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	signer, public := key(t)
	_, other := key(t)
	text, err := (&provenance.Signatory{Entity: signer}).ClearSign(path)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t)
	verifier, err := verification.New(verification.Options{Registry: client.Registries(), Provenance: client})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(keyring []byte) (verification.Result, error) {
		return verifier.Verify(t.Context(), chartrepo.URL(r.URL(), "demo"), digest, oci.Access{CA: r.CA()},
			verification.Policy{Provider: verification.HelmProvenance, Keyrings: map[string][]byte{"a.gpg": keyring}})
	}
	if _, err := verify(public); !errors.Is(err, verification.ErrUnsigned) {
		t.Errorf("without a file: %v, want %v", err, verification.ErrUnsigned)
	}
	r.SetFile("demo-1.0.0.tgz.prov", []byte(text))
	if _, err := verify(other); !errors.Is(err, verification.ErrUntrusted) {
		t.Errorf("by another key: %v, want %v", err, verification.ErrUntrusted)
	}
	if _, err := verify([]byte("x")); !errors.Is(err, verification.ErrInvalidPolicy) {
		t.Errorf("with a broken keyring: %v, want %v", err, verification.ErrInvalidPolicy)
	}
	got, err := verify(public)
	if err != nil || len(got.Signers) != 1 || !strings.Contains(got.Signers[0], "publisher@example.com") {
		t.Errorf("%v, %v, want the publisher", got, err)
	}
}

// TestSchemes checks that the scheme of a URL selects the kind of source.
func TestSchemes(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	for url, want := range map[string]string{
		"oci://r.example/charts/demo:1":     "must not contain a tag",
		"http://charts.example/stable/demo": "http:// needs insecure",
		"ftp://charts.example/stable/demo":  `must start with "oci://"`,
	} {
		_, err := client.Resolve(t.Context(), oci.Source{URL: url, Ref: oci.Reference{Tag: "1"}})
		if !errors.Is(err, ocierr.ErrInvalidReference) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
