// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sources_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"helm.sh/helm/v3/pkg/provenance"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
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
	return newClientWith(t, oci.Options{})
}

// newClientWith returns a client with options. It sets the directory.
func newClientWith(t *testing.T, opts oci.Options) *sources.Client {
	t.Helper()
	opts.Dir = t.TempDir()
	registries, err := oci.New(opts)
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

// sign returns the provenance file of an archive with a file name.
func sign(t *testing.T, signer *openpgp.Entity, file string, archive []byte) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := (&provenance.Signatory{Entity: signer}).ClearSign(path)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(text)
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
	signer, public := key(t)
	_, other := key(t)
	text := sign(t, signer, "demo-1.0.0.tgz", archive)
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
	r.SetFile("demo-1.0.0.tgz.prov", text)
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

// TestProvenanceReservesMemory checks that each verification of the same archive waits for memory.
func TestProvenanceReservesMemory(t *testing.T) {
	t.Parallel()
	const charts = 8
	noise := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // it never fails
	r := chartrepository.Start()
	t.Cleanup(r.Close)
	packed := registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 1.0.0\n", "noise": string(noise)})
	digest, err := r.Add(packed)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := packed()
	if err != nil {
		t.Fatal(err)
	}
	signer, public := key(t)
	names := make([]string, charts)
	for i := range names {
		names[i] = fmt.Sprintf("demo%d", i)
		file := names[i] + "-1.0.0.tgz"
		r.SetFile(file, archive)
		r.SetFile(file+".prov", sign(t, signer, file, archive))
		r.Edit(func(index *repo.IndexFile) {
			entry := *index.Entries["demo"][0]
			entry.URLs = []string{file}
			index.Entries[names[i]] = repo.ChartVersions{&entry}
		})
	}
	budget := bytebudget.New(8 << 20)
	client := newClientWith(t, oci.Options{Bytes: budget})
	all, err := budget.Acquire(t.Context(), bytebudget.Owner{}, budget.Total())
	if err != nil {
		t.Fatal(err)
	}
	outcomes := make(chan error, charts)
	for _, name := range names {
		go func() {
			_, err := client.Signers(t.Context(), chartrepo.URL(r.URL(), name), digest, oci.Access{CA: r.CA()},
				map[string][]byte{"a.gpg": public})
			outcomes <- err
		}()
	}
	for budget.Waiting() < charts && len(outcomes) == 0 && t.Context().Err() == nil {
		runtime.Gosched()
	}
	if waiting := budget.Waiting(); waiting != charts || len(outcomes) > 0 {
		t.Errorf("%d verifications wait, and %d have ended, want %d and none", waiting, len(outcomes), charts)
	}
	all.Release()
	for range charts {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
	if held := budget.InUse(); held != 0 {
		t.Errorf("%d bytes are held after the verifications", held)
	}
}

// TestProvenanceWithoutMemory checks that a verification without memory is repeated later.
func TestProvenanceWithoutMemory(t *testing.T) {
	t.Parallel()
	r := chartrepository.Start()
	t.Cleanup(r.Close)
	digest, err := r.Add(registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 1.0.0\n"}))
	if err != nil {
		t.Fatal(err)
	}
	budget := bytebudget.New(8 << 20)
	client := newClientWith(t, oci.Options{Bytes: budget})
	all, err := budget.Acquire(t.Context(), bytebudget.Owner{}, budget.Total())
	if err != nil {
		t.Fatal(err)
	}
	defer all.Release()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for budget.Waiting() == 0 && ctx.Err() == nil {
			runtime.Gosched()
		}
		cancel()
	}()
	_, err = client.Signers(ctx, chartrepo.URL(r.URL(), "demo"), digest, oci.Access{CA: r.CA()}, nil)
	if !errors.Is(err, ocierr.ErrRateLimited) {
		t.Errorf("%v, want %v", err, ocierr.ErrRateLimited)
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
