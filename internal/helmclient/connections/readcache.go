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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

const (
	// readTTL is how long an answer of the cluster is given again within an action. Helm asks for each object two or three
	// times in a row. It is shorter than the intervals at which anything polls.
	readTTL = time.Second
	// maxReadBytes bounds an answer that is kept, maxReads the number of those.
	maxReadBytes = 256 << 10
	maxReads     = 32
)

// readCache avoids repeated reads within an action. It answers a GET of a single object with a response that is younger
// than readTTL, and reports that an object does not exist if its namespace was just seen to be missing.
//
// The cache adds no new race: even without it, Helm computes patches from an object that may have changed since it was
// read. Each write of the action drops the responses for the written path and everything below it, and responses to
// reads that were under way. A watch drops all: then a hook runs, and its writes are not seen here. Lists and Helm's
// own records are never cached. It is for one action and safe for concurrent use.
type readCache struct {
	base http.RoundTripper
	// root is the path of the API server, which may be behind a proxy.
	root string
	now  func() time.Time

	mu sync.Mutex
	// reads holds answers by their URL and the form asked for.
	reads map[string]*keptRead
	// writes counts the begins and ends of writes and watches.
	writes int
	// existing holds namespaces that were seen; asking for one of those is not worth a request.
	existing *records.NameSet
	// missing holds when a namespace was seen not to exist.
	missing map[string]time.Time
}

// keptRead is an answer of the cluster.
type keptRead struct {
	at     time.Time
	path   string
	status int
	header http.Header
	body   []byte
}

func newReadCache(base http.RoundTripper, root string, existing *records.NameSet) *readCache {
	return &readCache{
		base: base, root: root, now: time.Now, existing: existing,
		reads: map[string]*keptRead{}, missing: map[string]time.Time{},
	}
}

// RoundTrip implements http.RoundTripper.
func (c *readCache) RoundTrip(req *http.Request) (*http.Response, error) {
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
	kept, ok := c.reads[key]
	writes := c.writes
	c.mu.Unlock()
	if ok && c.now().Sub(kept.at) < readTTL {
		return kept.response(req), nil
	}
	if c.isMissing(object.namespace) {
		return notFound(req, object), nil
	}
	kept, resp, err := c.read(req)
	if kept == nil {
		return resp, err
	}
	c.keep(key, kept, writes)
	if kept.status == http.StatusNotFound && object.namespace != "" {
		c.lookForNamespace(req, object.namespace)
	}
	return kept.response(req), nil
}

// read sends a request and reads the response; a response that must not be cached is returned unchanged.
func (c *readCache) read(req *http.Request) (*keptRead, *http.Response, error) {
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
	return &keptRead{at: c.now(), path: req.URL.Path, status: resp.StatusCode, header: resp.Header, body: body}, nil, nil
}

// keep keeps an answer, unless something was written while it was on its way.
func (c *readCache) keep(key string, kept *keptRead, writes int) {
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
	c.reads[key] = kept
}

// drop removes the responses that a write to the path makes outdated.
func (c *readCache) drop(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	written := strings.TrimSuffix(path, "/") + "/"
	for key, kept := range c.reads {
		read := kept.path + "/"
		if strings.HasPrefix(read, written) || strings.HasPrefix(written, read) {
			delete(c.reads, key)
		}
	}
	if namespaces := c.root + "/api/v1/namespaces/"; strings.HasPrefix(written, namespaces) ||
		strings.HasPrefix(namespaces, written) {
		clear(c.missing)
	}
}

// IsMissing reports whether it was just seen that there is no such namespace.
func (c *readCache) isMissing(namespace string) bool {
	if namespace == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Sub(c.missing[namespace]) < readTTL
}

// lookForNamespace asks whether a namespace exists in which an object does not.
func (c *readCache) lookForNamespace(object *http.Request, namespace string) {
	if c.existing.Has(namespace) {
		return
	}
	c.mu.Lock()
	writes := c.writes
	c.mu.Unlock()
	req := object.Clone(object.Context())
	req.URL.Path, req.URL.RawPath, req.URL.RawQuery = c.root+"/api/v1/namespaces/"+namespace, "", ""
	req.Header.Set("Accept", records.AcceptMetadata)
	answer, resp, err := c.read(req)
	if resp != nil {
		err = resp.Body.Close()
	}
	if err != nil || answer == nil || answer.status != http.StatusNotFound {
		// It exists, or who asks may not know: asking again is of no use.
		c.existing.Add(namespace)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes == writes {
		c.missing[namespace] = answer.at
	}
}

// response returns the answer to a request.
func (k *keptRead) response(req *http.Request) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", k.status, http.StatusText(k.status)), StatusCode: k.status,
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: k.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(k.body)), ContentLength: int64(len(k.body)), Request: req,
	}
}

// objectPath is an object as the path of its URL names it.
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

// notFound returns the answer that an object does not exist.
func notFound(req *http.Request, object objectPath) *http.Response {
	status := apierrors.NewNotFound(schema.GroupResource{Group: object.group, Resource: object.resource},
		object.name).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	// A status of texts and numbers always marshals.
	body, _ := json.Marshal(status)
	kept := &keptRead{status: http.StatusNotFound, header: http.Header{"Content-Type": {"application/json"}}, body: body}
	return kept.response(req)
}

// joinedBody reads from one place and closes another.
type joinedBody struct {
	io.Reader
	io.Closer
}

// failingReader fails.
type failingReader struct{ err error }

// Read implements io.Reader.
func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
