// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

const (
	// readTTL is how long a response may be used again within an action. Helm reads each object two or three times in a
	// row. readTTL is shorter than the interval of any polling.
	readTTL = time.Second
	// maxReadBytes is the maximum size of a cached response, in bytes.
	maxReadBytes = 256 << 10
	// maxReads is the maximum number of cached responses.
	maxReads = 32
)

// readCache avoids repeated reads within an action. For a GET of a single object, it returns a cached response that is
// younger than readTTL. If the namespace of an object was just observed to be missing, or is assumed to be missing,
// readCache responds that the object does not exist.
//
// The cache adds no new race: even without the cache, Helm computes patches from an object that may have changed after
// the read. Each write of the action drops cached responses for the written path, for the paths above and below it, and
// for reads that are running. A watch drops all responses, because a hook runs then, and the cache cannot observe its
// writes. Lists and Helm's own records are never cached. The cache is for one action and safe for concurrent use.
type readCache struct {
	base http.RoundTripper
	// root is the path of the API server, which may be behind a proxy.
	root string
	now  func() time.Time

	mu sync.Mutex
	// reads holds responses by their URL and the accepted format.
	reads map[string]*cachedRead
	// writes counts the starts and ends of writes, and watches.
	writes int
	// existing holds namespaces that probably exist. A request to check them is not worth its cost.
	existing *records.NameSet
	// missing holds when namespaces were observed to be missing.
	missing map[string]time.Time
	// assumed is a namespace that is assumed to be missing; empty if there is none.
	assumed string
	// expected is an object whose reads need no request; nil if there is none.
	expected *expectedObject
	// expectedMissing holds the paths of objects that are expected not to exist, until the next write.
	expectedMissing map[string]bool
}

// cachedRead is a response of the cluster to a read.
type cachedRead struct {
	at     time.Time
	path   string
	status int
	header http.Header
	body   []byte
}

func newReadCache(base http.RoundTripper, root string, existing *records.NameSet, now func() time.Time) *readCache {
	return &readCache{
		base: base, root: root, now: now, existing: existing,
		reads: map[string]*cachedRead{}, missing: map[string]time.Time{}, expectedMissing: map[string]bool{},
	}
}

// RoundTrip implements http.RoundTripper.
func (c *readCache) RoundTrip(req *http.Request) (*http.Response, error) {
	if expected := c.expectedAt(req.URL.Path); expected != nil {
		return c.sendExpected(req, expected)
	}
	return c.send(req)
}

// send sends a request, unless its response is cached.
func (c *readCache) send(req *http.Request) (*http.Response, error) {
	switch {
	case isWatch(req):
		c.drop("/")
		return c.base.RoundTrip(req)
	case req.Method != http.MethodGet:
		c.drop(req.URL.Path)
		defer c.drop(req.URL.Path)
		return c.base.RoundTrip(req)
	}
	object, ok := c.objectOf(req.URL.Path)
	if !ok || req.Header.Get("Range") != "" {
		return c.base.RoundTrip(req)
	}
	key := req.URL.String() + "\n" + req.Header.Get("Accept")
	c.mu.Lock()
	cached, ok := c.reads[key]
	writes := c.writes
	c.mu.Unlock()
	if ok && c.now().Sub(cached.at) < readTTL {
		return cached.response(req), nil
	}
	if c.isMissing(object.namespace) || c.isExpectedMissing(req.URL.Path) {
		return notFound(req, object), nil
	}
	cached, resp, err := c.read(req)
	if cached == nil {
		return resp, err
	}
	c.put(key, cached, writes)
	if cached.status == http.StatusNotFound && object.namespace != "" {
		c.checkNamespace(req, object.namespace)
	}
	return cached.response(req), nil
}

// read sends a request and reads the response. It returns a response that must not be cached unchanged.
func (c *readCache) read(req *http.Request) (*cachedRead, *http.Response, error) {
	resp, err := c.base.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound {
		return nil, resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReadBytes+1))
	if err != nil || len(body) > maxReadBytes {
		begin := io.MultiReader(bytes.NewReader(body), resp.Body)
		if err != nil {
			begin = io.MultiReader(bytes.NewReader(body), failingReader{err: err})
		}
		resp.Body = &joinedBody{Reader: begin, Closer: resp.Body}
		return nil, resp, nil
	}
	if err := resp.Body.Close(); err != nil {
		return nil, nil, err
	}
	// Other headers may take much memory, and the clients do not use them.
	header := http.Header{"Content-Type": resp.Header["Content-Type"]}
	return &cachedRead{at: c.now(), path: req.URL.Path, status: resp.StatusCode, header: header, body: body}, nil, nil
}

// put caches a response, unless there was a write during the read; writes is the count of writes before the read.
func (c *readCache) put(key string, cached *cachedRead, writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes != writes {
		return
	}
	if len(c.reads) >= maxReads {
		for other, read := range c.reads {
			if len(c.reads) >= maxReads || c.now().Sub(read.at) >= readTTL {
				delete(c.reads, other)
			}
		}
	}
	c.reads[key] = cached
}

// drop removes the responses that a write to the path may make outdated.
func (c *readCache) drop(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	clear(c.expectedMissing)
	written := strings.TrimSuffix(path, "/") + "/"
	for key, cached := range c.reads {
		read := cached.path + "/"
		if strings.HasPrefix(read, written) || strings.HasPrefix(written, read) {
			delete(c.reads, key)
		}
	}
	if namespaces := c.root + "/api/v1/namespaces/"; strings.HasPrefix(written, namespaces) ||
		strings.HasPrefix(namespaces, written) {
		clear(c.missing)
		c.assumed = ""
	}
}

// assumeMissing makes all reads of objects in a namespace return that the objects do not exist, until the next write to
// a namespace or its objects. It returns false, and does nothing, if the namespace is known to exist.
func (c *readCache) assumeMissing(namespace string) bool {
	if c.existing.Has(namespace) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assumed = namespace
	return true
}

// isMissing reports whether the namespace was just observed to be missing, or is assumed to be missing.
func (c *readCache) isMissing(namespace string) bool {
	if namespace == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.assumed == namespace {
		return true
	}
	return c.now().Sub(c.missing[namespace]) < readTTL
}

// isExpectedMissing reports whether the object at a path is expected not to exist.
func (c *readCache) isExpectedMissing(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expectedMissing[path]
}

// checkNamespace checks whether the namespace of a missing object exists; object is the request for the object.
func (c *readCache) checkNamespace(object *http.Request, namespace string) {
	if c.existing.Has(namespace) {
		return
	}
	c.mu.Lock()
	writes := c.writes
	c.mu.Unlock()
	req := object.Clone(object.Context())
	req.URL.Path, req.URL.RawPath, req.URL.RawQuery = c.root+"/api/v1/namespaces/"+namespace, "", ""
	req.Header.Set("Accept", model.AcceptMetadata)
	read, resp, err := c.read(req)
	if resp != nil {
		err = resp.Body.Close()
	}
	if err != nil || read == nil || read.status != http.StatusNotFound {
		// The namespace exists, or the user may not read it: another check would be useless.
		c.existing.Add(namespace)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes == writes {
		c.missing[namespace] = read.at
	}
}

// response returns the response to a request.
func (r *cachedRead) response(req *http.Request) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)), StatusCode: r.status,
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: r.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(r.body)), ContentLength: int64(len(r.body)), Request: req,
	}
}

// objectPath identifies an object by the parts of its URL path.
type objectPath struct{ group, resource, namespace, name string }

// objectOf returns the single object of a path; ok is false for lists, subresources and Helm's records.
func (c *readCache) objectOf(path string) (object objectPath, ok bool) {
	path, ok = strings.CutPrefix(path, c.root)
	if !ok {
		return objectPath{}, false
	}
	rest, ok := strings.CutPrefix(path, "/api/v1/")
	if !ok {
		if rest, ok = strings.CutPrefix(path, "/apis/"); !ok {
			return objectPath{}, false
		}
		if object.group, rest, ok = strings.Cut(rest, "/"); !ok {
			return objectPath{}, false
		}
		if _, rest, ok = strings.Cut(rest, "/"); !ok {
			return objectPath{}, false
		}
	}
	parts := strings.Split(rest, "/")
	switch {
	case len(parts) == 2:
		object.resource, object.name = parts[0], parts[1]
	case len(parts) == 4 && parts[0] == "namespaces":
		object.namespace, object.resource, object.name = parts[1], parts[2], parts[3]
	default:
		return objectPath{}, false
	}
	record := object.resource == "secrets" && strings.HasPrefix(object.name, storage.HelmStorageType+".")
	return object, !record && object.name != ""
}

// notFound returns the response that an object does not exist.
func notFound(req *http.Request, object objectPath) *http.Response {
	status := apierrors.NewNotFound(schema.GroupResource{Group: object.group, Resource: object.resource},
		object.name).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	// A status of strings and numbers always marshals.
	body, _ := json.Marshal(status)
	read := &cachedRead{status: http.StatusNotFound, header: http.Header{"Content-Type": {"application/json"}}, body: body}
	return read.response(req)
}

// joinedBody is a body with separate values for reading and closing.
type joinedBody struct {
	io.Reader
	io.Closer
}

// failingReader always returns an error.
type failingReader struct{ err error }

// Read implements io.Reader.
func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
