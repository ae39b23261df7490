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

package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"syscall"
	"testing"
	"time"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

var demoChart = ChartFiles(map[string]string{
	"Chart.yaml":          "apiVersion: v2\nname: demo\nversion: 1.2.3\ndescription: A chart\n",
	"templates/data.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}\n",
})

func startRegistry(t *testing.T) *Registry {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a process")
	}
	set, err := binaries.Ensure(t.Context(), binaries.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Start(t.Context(), Options{Dir: t.TempDir(), Binaries: set})
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

// clientRepository opens a repository as the product does: through the front,
// without retries.
func clientRepository(t *testing.T, r *Registry, name, password string) *remote.Repository {
	t.Helper()
	repo, err := remote.NewRepository(r.Host() + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(r.CA()) {
		t.Fatal("the CA is no PEM certificate")
	}
	repo.Client = &auth.Client{
		Client:     &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}},
		Credential: auth.StaticCredential(r.Host(), auth.Credential{Username: r.Username(), Password: password}),
	}
	return repo
}

func TestPullsWhatWasPushedAndCounts(t *testing.T) {
	t.Parallel()
	r := startRegistry(t)
	pushed, err := r.PushChart(t.Context(), "charts/demo", "1.2.3", demoChart)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Counts().Total(); n != 0 {
		t.Errorf("pushing counted as %d requests", n)
	}
	again, err := r.PushChart(t.Context(), "charts/demo", "1.2.3", demoChart)
	if err != nil || again.Digest != pushed.Digest {
		t.Errorf("the same chart got the digest %s, then %s (%v)", pushed.Digest, again.Digest, err)
	}

	repo := clientRepository(t, r, "charts/demo", r.Password())
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
	c := r.Counts()
	if c.BlobGets != 2 || c.ManifestGets+c.ManifestHeads == 0 || c.TagLists != 1 || c.Bytes == 0 || c.Writes != 0 {
		t.Errorf("unexpected counts %+v", c)
	}
	r.ResetCounts()
	if n := r.Counts().Total(); n != 0 {
		t.Errorf("%d requests after a reset", n)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	r := startRegistry(t)
	if _, err := r.PushChart(t.Context(), "demo", "1", demoChart); err != nil {
		t.Fatal(err)
	}
	resolve := func(password string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := clientRepository(t, r, "demo", password).Resolve(ctx, "1")
		return err
	}
	tests := []struct {
		name  string
		fault Fault
		want  func(error) bool
	}{
		{"down", Fault{Mode: Down}, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		{"hang", Fault{Mode: Hang}, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		{"status", Fault{Mode: Status, Code: 503}, hasStatus(503)},
		{"another repository's fault", Fault{Mode: Status, Code: 503, Match: func(r Request) bool { return r.Repository == "x" }}, isNil},
		{"none", Fault{}, isNil},
	}
	for _, tt := range tests {
		if err := r.SetFault(tt.fault); err != nil {
			t.Fatal(err)
		}
		if err := resolve(r.Password()); !tt.want(err) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
	if err := resolve("wrong"); !hasStatus(401)(err) {
		t.Errorf("a wrong password: got %v", err)
	}
}

func isNil(err error) bool { return err == nil }

func hasStatus(code int) func(error) bool {
	return func(err error) bool {
		var response *errcode.ErrorResponse
		return errors.As(err, &response) && response.StatusCode == code
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
