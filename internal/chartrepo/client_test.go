// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrepo_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/repo"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/chartrepository"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

func start(t *testing.T) *chartrepository.Repository {
	t.Helper()
	r := chartrepository.Start()
	t.Cleanup(r.Close)
	return r
}

func newClient(t *testing.T, change ...func(*oci.Options)) *chartrepo.Client {
	t.Helper()
	return chartrepo.New(newRegistries(t, change...))
}

func newRegistries(t *testing.T, change ...func(*oci.Options)) *oci.Client {
	t.Helper()
	opts := oci.Options{Dir: t.TempDir()}
	for _, fn := range change {
		fn(&opts)
	}
	registries, err := oci.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registries.Close)
	return registries
}

// add adds a version of the chart demo.
func add(t *testing.T, r *chartrepository.Repository, version, note string) string {
	t.Helper()
	digest, err := r.Add(chart(version, note))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// archiveOf returns the archive of a version that add adds.
func archiveOf(t *testing.T, version, note string) []byte {
	t.Helper()
	archive, err := chart(version, note)()
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func chart(version, note string) registry.Chart {
	return registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: demo\nversion: " + version + "\ndescription: \"- urls: [x]\\n  digest: y\"\n",
		"note.txt":   note,
	})
}

func source(r *chartrepository.Repository, ref oci.Reference) oci.Source {
	return oci.Source{URL: chartrepo.URL(r.URL(), "demo"), Ref: ref, Access: oci.Access{CA: r.CA()}}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	r := start(t)
	digests := map[string]string{}
	for _, version := range []string{"1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1", "v0.9.0", "1.2.0+build.5"} {
		digests[version] = add(t, r, version, version)
	}
	c := newClient(t)
	for name, tc := range map[string]struct {
		ref     oci.Reference
		want    string
		wantErr error
	}{
		"a range":           {oci.Reference{Semver: "^1.0"}, "1.10.0", nil},
		"a pre-release":     {oci.Reference{Semver: ">=2.0.0-0"}, "2.0.0-rc.1", nil},
		"a version":         {oci.Reference{Tag: "1.2.0"}, "1.2.0", nil},
		"with v":            {oci.Reference{Tag: "v0.9.0"}, "v0.9.0", nil},
		"build metadata":    {oci.Reference{Tag: "1.2.0+build.5"}, "1.2.0+build.5", nil},
		"as a tag":          {oci.Reference{Tag: "1.2.0_build.5"}, "1.2.0+build.5", nil},
		"a filter":          {oci.Reference{TagFilter: `^1\.2`}, "1.2.0+build.5", nil},
		"a digest":          {oci.Reference{Digest: digests["1.0.0"]}, "1.0.0", nil},
		"no such version":   {oci.Reference{Tag: "3.0.0"}, "", ocierr.ErrNotFound},
		"nothing in range":  {oci.Reference{Semver: "^7"}, "", ocierr.ErrNoMatchingTag},
		"no such digest":    {oci.Reference{Digest: "sha256:" + strings.Repeat("0", 64)}, "", ocierr.ErrNotFound},
		"a malformed range": {oci.Reference{Semver: ">>1"}, "", ocierr.ErrInvalidReference},
		"nothing":           {oci.Reference{}, "", ocierr.ErrInvalidReference},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.Resolve(t.Context(), source(r, tc.ref))
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("error %v, want %v", err, tc.wantErr)
			}
			if got.Version != tc.want || got.Digest != digests[tc.want] {
				t.Errorf("got %s, %s, want %s, %s", got.Version, got.Digest, tc.want, digests[tc.want])
			}
		})
	}
}

// TestFetch checks that the index and the archive are requested once for all callers, and that later calls read the
// archive from the store.
func TestFetch(t *testing.T) {
	t.Parallel()
	r := start(t)
	digest := add(t, r, "1.0.0", "x")
	c := newClient(t)
	src := source(r, oci.Reference{Tag: "1.0.0"})
	if _, ok := c.Stored(src.URL, digest); ok {
		t.Fatal("the store has the archive before it is pulled")
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			content, err := c.Fetch(t.Context(), src.URL, digest, src.Access)
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := content.ReadLayer(t.Context(), content.Layers[0]); err != nil || len(data) == 0 {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		})
	}
	wg.Wait()
	requests, _ := r.Requests()
	if requests["index.yaml"] != 1 || requests["demo-1.0.0.tgz"] != 1 {
		t.Errorf("requests %v, want one for each file", requests)
	}
	r.Close()
	content, ok := c.Stored(src.URL, digest)
	if !ok {
		t.Fatal("the store does not have the archive")
	}
	if _, err := content.ReadStored(t.Context(), content.Layers[0]); err != nil {
		t.Error(err)
	}
}

func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	r := start(t)
	add(t, r, "1.0.0", "x")
	c := newClient(t)
	clock := chartrepo.UseClock(c)
	resolve := func(want string) {
		t.Helper()
		got, err := c.Resolve(t.Context(), source(r, oci.Reference{Semver: "*"}))
		if err != nil || got.Version != want {
			t.Fatalf("%s, %v, want %s", got.Version, err, want)
		}
		clock.Step()
	}
	for range 3 {
		resolve("1.0.0")
	}
	if requests, same := r.Requests(); requests["index.yaml"] != 3 || same != 2 {
		t.Errorf("%v, %d times not modified, want two of three", requests, same)
	}
	add(t, r, "1.1.0", "x")
	resolve("1.1.0")
}

// TestLoginStaysAtTheRepository checks that the credential is sent only to the repository, and not to the host of an
// archive.
func TestLoginStaysAtTheRepository(t *testing.T) {
	t.Parallel()
	var leaked []string
	var mu sync.Mutex
	r := start(t)
	digest := add(t, r, "1.0.0", "x")
	archive := archiveOf(t, "1.0.0", "x")
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		leaked = append(leaked, req.Header.Get("Authorization"))
		if req.URL.Path == "/moved" {
			_, _ = w.Write(archive) // the client reads it with and without chunks
			return
		}
		http.Redirect(w, req, "/moved", http.StatusFound)
	}))
	t.Cleanup(other.Close)
	r.RequireLogin("user", "secret")
	r.Edit(func(index *repo.IndexFile) { index.Entries["demo"][0].URLs = []string{other.URL + "/demo.tgz"} })
	c := newClient(t)
	src := source(r, oci.Reference{Tag: "1.0.0"})
	if _, err := c.Resolve(t.Context(), src); !errors.Is(err, ocierr.ErrUnauthorized) {
		t.Fatalf("without a credential: %v", err)
	}
	host := strings.TrimPrefix(other.URL, "https://")
	repository := strings.TrimSuffix(strings.TrimPrefix(r.URL(), "https://"), "/stable")
	src.Access.DockerConfigs = [][]byte{fmt.Appendf(nil,
		`{"auths": {%q: {"username": "user", "password": "secret"}, %q: {"username": "user", "password": "secret"}}}`,
		repository, host)}
	if _, err := c.Resolve(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fetch(t.Context(), src.URL, digest, src.Access); err != nil {
		t.Fatal(err)
	}
	if mu.Lock(); len(leaked) != 2 || leaked[0]+leaked[1] != "" {
		t.Errorf("the other host got %q", leaked)
	}
	mu.Unlock()
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	local := func(o *oci.Options) { o.RefuseLocal = true }
	for name, tc := range map[string]struct {
		change  func(r *chartrepository.Repository)
		source  func(*oci.Source)
		options []func(*oci.Options)
		want    error
		message string
	}{
		"an unknown authority": {source: func(s *oci.Source) { s.Access.CA = nil }, want: ocierr.ErrTLS},
		"a local address":      {options: []func(*oci.Options){local}, want: ocierr.ErrAddressRefused},
		"plain HTTP": {source: func(s *oci.Source) { s.URL = "http://charts.example.com/demo" },
			want: ocierr.ErrInvalidReference},
		"no such chart": {source: func(s *oci.Source) { s.URL += "s" }, want: ocierr.ErrNotFound,
			message: `has no chart "demos"`},
		"no repository": {source: func(s *oci.Source) { s.URL = strings.Replace(s.URL, "stable", "other", 1) },
			want: ocierr.ErrNotFound, message: "helm repo add"},
		"a page": {change: func(r *chartrepository.Repository) {
			r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = io.WriteString(w, "<html>\n<body>Log in</body>\n</html>\n")
				return true
			})
		}, want: ocierr.ErrUnsupported, message: `no "entries"`},
		"a chart in a registry": {change: func(r *chartrepository.Repository) {
			r.Edit(func(i *repo.IndexFile) {
				i.Entries["demo"][0].URLs = []string{"oci://registry.example.com/charts/demo"}
			})
		}, want: ocierr.ErrUnsupported, message: "oci://registry.example.com/charts/demo"},
		"another archive": {change: func(r *chartrepository.Repository) { r.SetFile("demo-1.0.0.tgz", []byte("other")) },
			want: ocierr.ErrIntegrity, message: "digest that the index names"},
		"no archive": {change: func(r *chartrepository.Repository) { r.SetFile("demo-1.0.0.tgz", nil) },
			want: ocierr.ErrNotFound, message: "does not have the archive"},
		"a large archive": {options: []func(*oci.Options){func(o *oci.Options) { o.MaxBlobBytes = 10 }},
			want: ocierr.ErrTooLarge},
		"an archive without TLS": {change: func(r *chartrepository.Repository) {
			r.Edit(func(i *repo.IndexFile) { i.Entries["demo"][0].URLs = []string{"http://charts.example.com/demo.tgz"} })
		}, want: ocierr.ErrUnsupported, message: `"http"`},
		"a file": {change: func(r *chartrepository.Repository) {
			r.Edit(func(i *repo.IndexFile) { i.Entries["demo"][0].URLs = []string{"file:///etc/passwd"} })
		}, want: ocierr.ErrUnsupported, message: `"file"`},
		"metadata of a cloud": {change: func(r *chartrepository.Repository) {
			r.Edit(func(i *repo.IndexFile) { i.Entries["demo"][0].URLs = []string{"https://169.254.169.254/latest"} })
		}, want: ocierr.ErrAddressRefused, message: "link-local"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			digest := add(t, r, "1.0.0", "x")
			src := source(r, oci.Reference{Tag: "1.0.0"})
			if tc.change != nil {
				tc.change(r)
			}
			if tc.source != nil {
				tc.source(&src)
			}
			c := newClient(t, tc.options...)
			_, err := c.Resolve(t.Context(), src)
			if err == nil {
				_, err = c.Fetch(t.Context(), src.URL, digest, src.Access)
			}
			if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.message) {
				t.Errorf("%v, want %v with %q", err, tc.want, tc.message)
			}
		})
	}
}

// TestNoDigest checks that an archive without a digest in the index is pulled once, even if it is sent in chunks.
func TestNoDigest(t *testing.T) {
	t.Parallel()
	r := start(t)
	digest := add(t, r, "1.0.0", "x")
	r.Edit(func(i *repo.IndexFile) { i.Entries["demo"][0].Digest = "" })
	c := newClient(t)
	for range 2 {
		got, err := c.Resolve(t.Context(), source(r, oci.Reference{Semver: "*"}))
		if err != nil || got.Digest != digest {
			t.Fatalf("%s, %v, want %s", got.Digest, err, digest)
		}
	}
	if _, err := c.Fetch(t.Context(), chartrepo.URL(r.URL(), "demo"), digest, oci.Access{CA: r.CA()}); err != nil {
		t.Error(err)
	}
	if requests, _ := r.Requests(); requests["demo-1.0.0.tgz"] != 1 {
		t.Errorf("requests %v, want one for the archive", requests)
	}
}

// TestPullsWithoutSizeWait checks that concurrent pulls from a server that does not name the sizes of files wait for
// each other.
func TestPullsWithoutSizeWait(t *testing.T) {
	t.Parallel()
	const pulls = 4
	r := start(t)
	digests := make([]string, pulls)
	archives := map[string][]byte{}
	for i := range digests {
		version := fmt.Sprintf("1.0.%d", i)
		digests[i] = add(t, r, version, version)
		archives["demo-"+version+".tgz"] = archiveOf(t, version, version)
	}
	var requests sync.WaitGroup // each pull sends its first request before the first answer
	requests.Add(pulls)
	var first sync.Map
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		archive, ok := archives[path.Base(req.URL.Path)]
		if !ok {
			return false
		}
		if _, isKnown := first.LoadOrStore(req.URL.Path, true); !isKnown {
			requests.Done()
		}
		requests.Wait()
		w.(http.Flusher).Flush()
		_, _ = w.Write(archive)
		return true
	})
	c := newClient(t, func(o *oci.Options) { o.MaxBytes = 64 << 20 })
	var wg sync.WaitGroup
	for _, digest := range digests {
		wg.Go(func() {
			if _, err := c.Fetch(t.Context(), chartrepo.URL(r.URL(), "demo"), digest, oci.Access{CA: r.CA()}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestPageInsteadOfArchive has a proxy that answers with a page for an archive without a digest in the index. The page
// must not become the archive of the version.
func TestPageInsteadOfArchive(t *testing.T) {
	t.Parallel()
	r := start(t)
	digest := add(t, r, "1.0.0", "x")
	r.Edit(func(i *repo.IndexFile) { i.Entries["demo"][0].Digest = "" })
	isDown := true
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if isDown && strings.HasSuffix(req.URL.Path, ".tgz") {
			_, _ = io.WriteString(w, "<html>We are back soon.</html>")
			return true
		}
		return false
	})
	c := newClient(t)
	if got, err := c.Resolve(t.Context(), source(r, oci.Reference{Semver: "*"})); !errors.Is(err, ocierr.ErrUnexpected) {
		t.Errorf("the page: %s, %v", got.Digest, err)
	}
	isDown = false
	if got, err := c.Resolve(t.Context(), source(r, oci.Reference{Semver: "*"})); err != nil || got.Digest != digest {
		t.Errorf("the archive: %s, %v, want %s", got.Digest, err, digest)
	}
}

// TestLargeArchiveNeedsLittleMemory checks that the lookup of an archive without a digest in the index does not read
// the archive into memory. The lookup has no limit for its memory.
func TestLargeArchiveNeedsLittleMemory(t *testing.T) { // not parallel: it measures the memory of the process
	const size, limit = 32 << 20, 16 << 20
	r := start(t)
	add(t, r, "1.0.0", "x")
	r.Edit(func(i *repo.IndexFile) { i.Entries["demo"][0].Digest = "" })
	archive := make([]byte, size)
	copy(archive, "\x1f\x8b")
	r.SetFile("demo-1.0.0.tgz", archive)
	c := newClient(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := c.Resolve(t.Context(), source(r, oci.Reference{Tag: "1.0.0"})); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > limit {
		t.Errorf("the lookup allocated %d bytes for an archive of %d bytes, want at most %d", allocated, size, limit)
	}
}

// TestIndexOverShare checks that an index may use the whole share of a tenant at a host, and that the error for a
// larger index has the limit and advice.
func TestIndexOverShare(t *testing.T) {
	t.Parallel()
	const budget = 8 << 20 // the share is a quarter, and an entry needs about 240 bytes
	for name, tc := range map[string]struct {
		entries  int
		wantErr  error
		messages []string
	}{
		"a smaller index": {entries: 8_000},
		"a larger index": {10_000, ocierr.ErrTooLarge,
			[]string{"its entries need more than 2 MiB", "raise the memory limit of the manager"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = io.WriteString(w, "entries:\n  demo:\n")
				for i := range tc.entries {
					_, _ = fmt.Fprintf(w, "  - {version: 1.0.%d, urls: [a.tgz], digest: %s}\n", i, strings.Repeat("a", 64))
				}
				return true
			})
			c := chartrepo.NewBounded(newRegistries(t), budget, budget)
			_, err := c.Resolve(t.Context(), source(r, oci.Reference{Tag: "1.0.0"}))
			if !errors.Is(err, tc.wantErr) {
				t.Errorf("%v, want %v", err, tc.wantErr)
			}
			for _, message := range tc.messages {
				if !strings.Contains(fmt.Sprint(err), message) {
					t.Errorf("%v, want %q", err, message)
				}
			}
		})
	}
}

func TestCompressedIndex(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if req.Header.Get("Accept-Encoding") != "gzip" {
			return false
		}
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		_, _ = io.WriteString(zipped, "entries:\n  demo:\n  - version: 1.0.0\n    urls: [a.tgz]\n    digest: "+
			strings.Repeat("a", 64)+"\n")
		_ = zipped.Close()
		return true
	})
	got, err := newClient(t).Resolve(t.Context(), source(r, oci.Reference{Semver: "*"}))
	if err != nil || got.Digest != "sha256:"+strings.Repeat("a", 64) {
		t.Errorf("%s, %v", got.Digest, err)
	}
}

// TestEncodedPath resolves and fetches from a repository whose URL has an encoded slash. No error contains the token in
// the URL of an archive.
func TestEncodedPath(t *testing.T) {
	t.Parallel()
	archive, err := registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 1.0.0\n"})()
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(archive))
	const folder = "/projects/group%2Fapp/helm/"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.EscapedPath() {
		case folder + "index.yaml":
			_, _ = fmt.Fprintf(w, "entries:\n  demo:\n  - version: 1.0.0\n    digest: %s\n    urls: [demo.tgz]\n"+
				"  - version: 2.0.0\n    digest: %s\n    urls: [\"gone.tgz?token=planted\"]\n", sum,
				strings.Repeat("ab", 32))
		case folder + "demo.tgz":
			_, _ = w.Write(archive)
		default:
			http.NotFound(w, req)
		}
	}))
	t.Cleanup(server.Close)
	url := server.URL + strings.TrimSuffix(folder, "/") + "/demo"
	access := oci.Access{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	c := newClient(t)
	if _, err := c.Fetch(t.Context(), url, "sha256:"+sum, access); err != nil {
		t.Error(err)
	}
	_, err = c.Fetch(t.Context(), url, "sha256:"+strings.Repeat("ab", 32), access)
	if !errors.Is(err, ocierr.ErrNotFound) || strings.Contains(err.Error(), "planted") ||
		!strings.Contains(err.Error(), "gone.tgz") {
		t.Errorf("error %v", err)
	}
}
