// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

var demoChart = ChartFiles(map[string]string{
	"Chart.yaml":          "apiVersion: v2\nname: demo\nversion: 1.2.3\ndescription: A chart\n",
	"templates/data.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}\n",
})

// startRegistry starts a registry that is stopped at the end of the test.
func startRegistry(t *testing.T, opts Options) *Registry {
	t.Helper()
	opts.Dir = t.TempDir()
	if opts.Implementation == Distribution {
		if testing.Short() {
			t.Skip("starts a process")
		}
		var err error
		if opts.Binaries, err = binaries.Ensure(t.Context(), binaries.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if pids := r.PIDs(); len(pids) > 0 {
			t.Errorf("processes are left: %v", pids)
		}
	})
	return r
}

func trusting(t *testing.T, r *Registry) *http.Transport {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(r.CA()) {
		t.Fatal("the CA is no PEM certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// clientRepository opens a repository as HelmOp does: through the front, without retries.
func clientRepository(t *testing.T, r *Registry, name string, credential auth.Credential) *remote.Repository {
	t.Helper()
	repo, err := remote.NewRepository(r.Host() + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	repo.Client = &auth.Client{
		Client:     &http.Client{Transport: trusting(t, r)},
		Credential: auth.StaticCredential(r.Host(), credential),
	}
	repo.PlainHTTP = r.opts.PlainHTTP
	return repo
}

// owner returns the credential of the first user of a registry.
func owner(r *Registry) auth.Credential {
	return auth.Credential{Username: r.Username(), Password: r.Password()}
}

func push(t *testing.T, r *Registry, repository, tag string) ocispec.Descriptor {
	t.Helper()
	pushed, err := r.PushChart(t.Context(), repository, tag, demoChart)
	if err != nil {
		t.Fatal(err)
	}
	return pushed
}

func pull(t *testing.T, repo *remote.Repository, reference string) error {
	t.Helper()
	_, err := oras.Copy(t.Context(), repo, reference, memory.New(), "", oras.DefaultCopyOptions)
	return err
}

func TestPullsPushedChartsAndCountsRequests(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{
		"distribution":            {},
		"distribution, anonymous": {Auth: AuthNone},
		"distribution, tokens":    {Auth: AuthToken},
		"distribution, no TLS":    {PlainHTTP: true},
		"in process":              {Implementation: InProcess},
		"in process, anonymous":   {Implementation: InProcess, Auth: AuthNone},
		"in process, no TLS":      {Implementation: InProcess, PlainHTTP: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRegistry(t, opts)
			pushed := push(t, r, "charts/demo", "1.2.3")
			if n := r.Counts().Total(); n != 0 {
				t.Errorf("pushing counted as %d requests", n)
			}
			if again := push(t, r, "charts/demo", "1.2.3"); again.Digest != pushed.Digest {
				t.Errorf("the same chart got the digest %s, then %s", pushed.Digest, again.Digest)
			}
			credential := owner(r)
			if opts.Auth == AuthNone {
				credential = auth.EmptyCredential
			}
			repo := clientRepository(t, r, "charts/demo", credential)
			got, err := oras.Copy(t.Context(), repo, "1.2.3", memory.New(), "", oras.DefaultCopyOptions)
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest != pushed.Digest {
				t.Errorf("pulled %s, pushed %s", got.Digest, pushed.Digest)
			}
			if err := repo.Tags(t.Context(), "", func([]string) error { return nil }); err != nil {
				t.Fatal(err)
			}
			c := r.Counts(In("charts/demo"))
			if c.BlobGets != 2 || c.ManifestGets+c.ManifestHeads == 0 || c.TagLists != 1 || c.Bytes == 0 || c.Writes != 0 {
				t.Errorf("unexpected counts %+v", c)
			}
			if refused := opts.Auth != AuthNone; (c.Refused > 0) != refused {
				t.Errorf("%d requests were refused", c.Refused)
			}
			if n := r.Counts(In("charts/other")).Total(); n != 0 {
				t.Errorf("%d requests for a repository without requests", n)
			}
			r.ResetCounts()
			if n := r.Counts().Total(); n != 0 {
				t.Errorf("%d requests after a reset", n)
			}
		})
	}
}

// TestPlainHTTPHasNoTLS sends requests in plain HTTP to registries with and without TLS.
func TestPlainHTTPHasNoTLS(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"plain": true, "TLS": false} {
		r := startRegistry(t, Options{Implementation: InProcess, PlainHTTP: plain, Auth: AuthNone})
		resp, err := http.Get("http://" + r.Host() + "/v2/")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if (resp.StatusCode == http.StatusOK) != plain {
			t.Errorf("%s: answered %s", name, resp.Status)
		}
	}
}

func TestReferrersAPI(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess})
	subject := push(t, r, "charts/demo", "1")
	signature, err := r.PushRaw(t.Context(), "charts/demo", "",
		Raw{ArtifactType: "application/vnd.example", Subject: &subject})
	if err != nil {
		t.Fatal(err)
	}
	var got []digest.Digest
	err = clientRepository(t, r, "charts/demo", owner(r)).Referrers(t.Context(), subject, "",
		func(referrers []ocispec.Descriptor) error {
			for _, referrer := range referrers {
				got = append(got, referrer.Digest)
			}
			return nil
		})
	if err != nil || !slices.Equal(got, []digest.Digest{signature.Digest}) {
		t.Errorf("got the referrers %v, %v", got, err)
	}
	if n := r.Counts().Referrers; n != 1 {
		t.Errorf("%d requests for referrers", n)
	}
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]Options{
		"use Distribution":     {Implementation: InProcess, Auth: AuthToken},
		"do not set PlainHTTP": {Implementation: InProcess, PlainHTTP: true, RequireClientCert: true},
	} {
		opts.Dir = t.TempDir()
		if _, err := Start(t.Context(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method, path          string
		kind                  Kind
		repository, reference string
	}{
		{"GET", "/v2/", Other, "", ""},
		{"GET", "/healthz", Other, "", ""},
		{"GET", "/v2/a/b/manifests/v1", ManifestGet, "a/b", "v1"},
		{"HEAD", "/v2/a/manifests/sha256:1", ManifestHead, "a", "sha256:1"},
		{"GET", "/v2/a/blobs/sha256:1", BlobGet, "a", "sha256:1"},
		{"HEAD", "/v2/a/blobs/sha256:1", BlobHead, "a", "sha256:1"},
		{"GET", "/v2/a/tags/list", TagList, "a", ""},
		{"GET", "/v2/a/b/referrers/sha256:1", Referrers, "a/b", "sha256:1"},
		{"PUT", "/v2/a/manifests/v1", Write, "a", "v1"},
		{"POST", "/v2/a/b/blobs/uploads/", Write, "a/b", ""},
		{"PATCH", "/v2/a/b/blobs/uploads/x", Write, "a/b", ""},
	}
	for _, tt := range tests {
		got := classify(tt.method, tt.path)
		if got.Kind != tt.kind || got.Repository != tt.repository && tt.kind != Other || got.Reference != tt.reference {
			t.Errorf("%s %s: got %+v", tt.method, tt.path, got)
		}
	}
}
