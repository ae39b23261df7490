// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	scheme       = "oci://"
	testRepo     = "charts/demo"
	chartLayer   = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	testUser     = "planted-user"
	testPassword = "planted-password"
	testToken    = "planted-token"
	testIdentity = "planted-identity"
)

// fakeRegistry implements the part of the distribution API that a pull needs. It counts requests. Any other request
// fails the test.
type fakeRegistry struct {
	t   *testing.T
	srv *httptest.Server

	mu        sync.Mutex
	manifests map[string][]byte // by tag and by digest
	blobs     map[string][]byte
	tags      []string
	counts    map[string]int

	// pageSize is the size of a page of tags. Zero means that all tags are in one page.
	pageSize int
	// basic and bearer require credentials.
	basic, bearer bool
	// intercept may handle a request in place of the registry. It then returns true.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	// allowMissing must be set in tests that request missing content.
	allowMissing bool
}

func newRegistry(t *testing.T) *fakeRegistry {
	r := &fakeRegistry{t: t, manifests: map[string][]byte{}, blobs: map[string][]byte{}, counts: map[string]int{}}
	r.srv = httptest.NewTLSServer(http.HandlerFunc(r.serve))
	r.srv.Config.ErrorLog = nil
	t.Cleanup(r.srv.Close)
	return r
}

func (r *fakeRegistry) host() string { return strings.TrimPrefix(r.srv.URL, "https://") }
func (r *fakeRegistry) url() string  { return scheme + r.host() + "/" + testRepo }

func (r *fakeRegistry) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.srv.Certificate().Raw})
}

func (r *fakeRegistry) access() Access {
	access := Access{CA: r.ca()}
	if r.basic || r.bearer {
		access.DockerConfigs = [][]byte{dockerConfigFor(r.host(), testUser, testPassword)}
	}
	return access
}

func (r *fakeRegistry) source(ref Reference) Source {
	return Source{URL: r.url(), Ref: ref, Access: r.access()}
}

// push stores an artifact like a chart under a tag and returns its digest.
func (r *fakeRegistry) push(tag, version string, layer []byte) string {
	config := []byte(`{"name":"demo","version":"` + version + `"}`)
	return r.pushManifest(tag, ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    r.addBlob(chartConfig, config),
		Layers:    []ocispec.Descriptor{r.addBlob(chartLayer, layer)},
	})
}

func (r *fakeRegistry) addBlob(mediaType string, data []byte) ocispec.Descriptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	dgst := digest.FromBytes(data)
	r.blobs[dgst.String()] = data
	return ocispec.Descriptor{MediaType: mediaType, Digest: dgst, Size: int64(len(data))}
}

func (r *fakeRegistry) pushManifest(tag string, manifest any) string {
	data, err := json.Marshal(manifest)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	dgst := digest.FromBytes(data).String()
	r.manifests[dgst] = data
	if tag != "" {
		r.manifests[tag] = data
		r.tags = append(r.tags, tag)
	}
	return dgst
}

// count returns the number of requests "METHOD kind". Unlike wantRequests, it does not reset the number.
func (r *fakeRegistry) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[what]
}

// wantRequests fails the test if the requests since the last call are different.
func (r *fakeRegistry) wantRequests(want map[string]int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !maps.Equal(r.counts, want) {
		r.t.Errorf("requests = %v, want %v", r.counts, want)
	}
	r.counts = map[string]int{}
}

func (r *fakeRegistry) serve(w http.ResponseWriter, req *http.Request) {
	kind := transport.KindOf(req)
	r.mu.Lock()
	r.counts[req.Method+" "+kind]++
	intercept := r.intercept
	r.mu.Unlock()
	if intercept != nil && intercept(w, req) {
		return
	}
	if req.URL.Path == "/token" {
		r.serveToken(w, req)
		return
	}
	if !r.authorized(w, req) {
		return
	}
	rest, ok := strings.CutPrefix(req.URL.Path, "/v2/"+testRepo+"/")
	if !ok {
		r.missing(w, req, "NAME_UNKNOWN")
		return
	}
	what, name, _ := strings.Cut(rest, "/")
	switch {
	case what == "manifests" && (req.Method == http.MethodGet || req.Method == http.MethodHead):
		r.serveContent(w, req, r.manifests, name, "MANIFEST_UNKNOWN")
	case what == "blobs" && req.Method == http.MethodGet:
		r.serveContent(w, req, r.blobs, name, "BLOB_UNKNOWN")
	case rest == "tags/list" && req.Method == http.MethodGet:
		r.serveTags(w, req)
	default:
		r.t.Errorf("unexpected request %s %s", req.Method, req.URL.Path)
		w.WriteHeader(http.StatusTeapot)
	}
}

func (r *fakeRegistry) missing(w http.ResponseWriter, req *http.Request, code string) {
	if !r.allowMissing {
		r.t.Errorf("request for something that does not exist: %s %s", req.Method, req.URL.Path)
	}
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"planted-message"}]}`, code)
}

func (r *fakeRegistry) serveContent(w http.ResponseWriter, req *http.Request, from map[string][]byte,
	name, code string,
) {
	r.mu.Lock()
	data, ok := from[name]
	r.mu.Unlock()
	if !ok {
		r.missing(w, req, code)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if code == "MANIFEST_UNKNOWN" {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
	}
	w.Header().Set("Docker-Content-Digest", digest.FromBytes(data).String())
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if req.Method == http.MethodGet {
		_, _ = w.Write(data)
	}
}

func (r *fakeRegistry) serveTags(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	start := 0
	if last := req.URL.Query().Get("last"); last != "" {
		start, _ = strconv.Atoi(last)
	}
	end := len(r.tags)
	if r.pageSize > 0 && start+r.pageSize < end {
		end = start + r.pageSize
		w.Header().Set("Link", fmt.Sprintf(`<%s?last=%d>; rel="next"`, req.URL.Path, end))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": testRepo, "tags": r.tags[start:end]})
}

// authorized checks the credentials of a request, according to basic and bearer.
func (r *fakeRegistry) authorized(w http.ResponseWriter, req *http.Request) bool {
	user, password, _ := req.BasicAuth()
	switch {
	case r.basic && (user != testUser || password != testPassword):
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	case r.bearer && req.Header.Get("Authorization") != "Bearer "+testToken:
		w.Header().Set("WWW-Authenticate",
			fmt.Sprintf(`Bearer realm="%s/token",service="test",scope="repository:%s:pull"`, r.srv.URL, testRepo))
	default:
		return true
	}
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"planted-message"}]}`))
	return false
}

func (r *fakeRegistry) serveToken(w http.ResponseWriter, req *http.Request) {
	user, password, _ := req.BasicAuth()
	byIdentity := req.Method == http.MethodPost && req.FormValue("refresh_token") == testIdentity
	if !byIdentity && (user != testUser || password != testPassword) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = w.Write([]byte(`{"token":"` + testToken + `","access_token":"` + testToken + `"}`))
}

func (r *fakeRegistry) setIntercept(f func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = f
}

func dockerConfigFor(host, user, password string) []byte {
	data, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"username": user,
		"password": password}}})
	if err != nil {
		panic(err)
	}
	return data
}

func newClient(t *testing.T, change ...func(*Options)) *Client {
	t.Helper()
	// The timeout is long, because a full machine may need seconds for ten megabytes.
	opts := Options{Dir: t.TempDir(), Timeout: time.Minute, retryBase: time.Millisecond}
	for _, f := range change {
		f(&opts)
	}
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// noSecrets fails the test if an error contains a secret.
func noSecrets(t *testing.T, err error) {
	t.Helper()
	for _, planted := range []string{testUser, testPassword, testToken, "planted-"} {
		if strings.Contains(err.Error(), planted) || strings.Contains(err.Error(), url.QueryEscape(planted)) {
			t.Errorf("error holds %q: %v", planted, err)
		}
	}
}
