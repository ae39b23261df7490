// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartrepository serves a Helm chart repository over HTTPS, with an index that Helm's own code writes.
package chartrepository

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/repo"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// root is the path of the repository on its server.
const root = "/stable/"

// Repository is a chart repository. It is safe for concurrent use.
type Repository struct {
	server *httptest.Server

	mu                 sync.Mutex
	index              *repo.IndexFile
	files              map[string][]byte
	requests           map[string]int
	notModified        int
	refused            int
	username, password string
	intercept          func(w http.ResponseWriter, r *http.Request) bool
}

// Start serves an empty repository. The caller must call Close.
func Start() *Repository {
	r := &Repository{index: repo.NewIndexFile(), files: map[string][]byte{}, requests: map[string]int{}}
	r.server = httptest.NewTLSServer(http.HandlerFunc(r.serve))
	return r
}

// Close stops the server.
func (r *Repository) Close() { r.server.Close() }

// URL is the URL for "helm repo add".
func (r *Repository) URL() string { return r.server.URL + path.Clean(root) }

// CA is the certificate authority of the server, in PEM.
func (r *Repository) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
}

// RequireLogin makes the server require a username and a password.
func (r *Repository) RequireLogin(username, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.username, r.password = username, password
}

// Intercept sets a function that may answer requests in place of the repository; it returns whether it did.
func (r *Repository) Intercept(fn func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = fn
}

// Add adds a chart to the repository, or replaces a version, and returns the digest of its archive, "sha256:…".
func (r *Repository) Add(chart registry.Chart) (digest string, err error) {
	archive, err := chart()
	if err != nil {
		return "", err
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(archive)
	hash := hex.EncodeToString(sum[:])
	name := fmt.Sprintf("%s-%s.tgz", loaded.Metadata.Name, loaded.Metadata.Version)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[name] = archive
	versions := r.index.Entries[loaded.Metadata.Name]
	for i, known := range versions {
		if known.Version == loaded.Metadata.Version {
			r.index.Entries[loaded.Metadata.Name] = append(versions[:i:i], versions[i+1:]...)
		}
	}
	if err := r.index.MustAdd(loaded.Metadata, name, "", hash); err != nil {
		return "", err
	}
	r.index.SortEntries()
	return "sha256:" + hash, nil
}

// Edit changes the index.
func (r *Repository) Edit(change func(*repo.IndexFile)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.index)
}

// SetFile sets the content of a file next to the index; nil removes the file.
func (r *Repository) SetFile(name string, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if content == nil {
		delete(r.files, name)
		return
	}
	r.files[name] = content
}

// Requests returns the number of requests for each file, and how many of them were answered with 304.
func (r *Repository) Requests() (byFile map[string]int, notModified int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.requests), r.notModified
}

// Refused returns the number of requests that were refused without the login.
func (r *Repository) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

func (r *Repository) serve(w http.ResponseWriter, req *http.Request) {
	name := path.Base(req.URL.Path)
	r.mu.Lock()
	r.requests[name]++
	intercept := r.intercept
	username, password, _ := req.BasicAuth()
	isRefused := username != r.username || password != r.password
	if isRefused {
		r.refused++
	}
	content, ok := r.files[name]
	if name == "index.yaml" {
		data, err := yaml.Marshal(r.index)
		content, ok = data, err == nil
	}
	r.mu.Unlock()
	switch {
	case intercept != nil && intercept(w, req):
	case isRefused:
		w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
		w.WriteHeader(http.StatusUnauthorized)
	case !ok || path.Dir(req.URL.Path)+"/" != root:
		http.NotFound(w, req)
	default:
		sum := sha256.Sum256(content)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
		recorder := &statusRecorder{ResponseWriter: w}
		http.ServeContent(recorder, req, name, time.Time{}, bytes.NewReader(content))
		if recorder.status == http.StatusNotModified {
			r.mu.Lock()
			r.notModified++
			r.mu.Unlock()
		}
	}
}

// statusRecorder records the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}
