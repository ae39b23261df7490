// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// kindsLibrary shares discovery results between clusters that serve the same kinds, as most clusters of a fleet do. A
// result takes half a megabyte, and decoding it takes most of the time to connect to a cluster. Only byte-identical
// results are shared, so a cluster cannot influence the result for another cluster. The library drops results that no
// cluster uses. It is safe for concurrent use.
type kindsLibrary struct {
	kept *keptKinds

	mu       sync.Mutex
	byDigest map[[sha256.Size]byte]weak.Pointer[kindsResult]
}

func newKindsLibrary() *kindsLibrary {
	return &kindsLibrary{kept: newKeptKinds(maxKeptKinds),
		byDigest: map[[sha256.Size]byte]weak.Pointer[kindsResult]{}}
}

// find returns the result for documents with the digest; nil if there is none.
func (l *kindsLibrary) find(digest [sha256.Size]byte) *kindsResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byDigest[digest].Value()
}

// add adds a result and returns it. If another caller has added the result in the meantime, it returns that result.
func (l *kindsLibrary) add(digest [sha256.Size]byte, result *kindsResult) *kindsResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byDigest[digest].Value(); known != nil {
		return known
	}
	kept := weak.Make(result)
	l.byDigest[digest] = kept
	runtime.AddCleanup(result, func(digest [sha256.Size]byte) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.byDigest[digest] == kept {
			delete(l.byDigest, digest)
		}
	}, digest)
	return result
}

// servedDocument is one of the two documents that list what a cluster serves.
type servedDocument struct {
	header http.Header
	body   []byte
}

// servedDocuments holds both documents by their paths.
type servedDocuments map[string]*servedDocument

// servedPaths lists the paths of the documents: for the core group, and for all other groups.
var servedPaths = []string{"/api", "/apis"}

// documentKind is the kind of the documents of current servers; older servers have a document for each group and
// version.
var documentKind = schema.GroupVersionKind{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}

// fetchServed reads the documents. It returns false if the server does not serve both documents in this format. The
// caller then uses the usual discovery.
func (k *Kinds) fetchServed(ctx context.Context) (servedDocuments, bool) {
	documents := servedDocuments{}
	for _, path := range servedPaths {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.live.RESTClient().Get().AbsPath(path).URL().String(),
			nil)
		if err != nil {
			return nil, false
		}
		req.Header.Set("Accept", discovery.AcceptV2+","+discovery.AcceptV1)
		req.Header.Set("User-Agent", model.UserAgent)
		resp, err := k.tags.RoundTrip(req)
		if err != nil {
			return nil, false
		}
		body, err := io.ReadAll(resp.Body)
		closeErr := resp.Body.Close()
		isOne, _ := discovery.ContentTypeIsGVK(resp.Header.Get("Content-Type"), documentKind)
		if err != nil || closeErr != nil || resp.StatusCode != http.StatusOK || !isOne {
			return nil, false
		}
		documents[path] = &servedDocument{header: resp.Header, body: body}
	}
	return documents, true
}

// read decodes the documents.
func (d servedDocuments) read(ctx context.Context, host rest.Config, of *version.Info) (*kindsResult, error) {
	host.Transport = d
	client, err := discovery.NewDiscoveryClientForConfig(&host)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's API versions: %w", err)
	}
	result, err := readServed(ctx, client, of)
	if err == nil && result.partial == nil {
		result.tag = d["/apis"].header.Get("ETag")
	}
	return result, err
}

// digest returns the digest of the documents and of the cluster's version.
func (d servedDocuments) digest(of *version.Info) [sha256.Size]byte {
	h := sha256.New()
	encoder := json.NewEncoder(h)
	// Encoding a struct of strings into a hash cannot fail.
	_ = encoder.Encode(of)
	for _, path := range servedPaths {
		_ = encoder.Encode(len(d[path].body))
		_, _ = h.Write(d[path].body)
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}

// RoundTrip implements http.RoundTripper. It returns the documents, and an error for any other path.
func (d servedDocuments) RoundTrip(req *http.Request) (*http.Response, error) {
	for _, path := range servedPaths {
		if document := d[path]; strings.HasSuffix(req.URL.Path, path) {
			return &http.Response{
				Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
				Header: document.header.Clone(), Body: io.NopCloser(bytes.NewReader(document.body)),
				ContentLength: int64(len(document.body)),
			}, nil
		}
	}
	return nil, errNoKinds
}
