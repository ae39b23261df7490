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
// result takes half a megabyte, and reading it takes longer than anything else about a cluster. Only results that are
// equal to the last byte are shared, so no cluster can influence the result of another. It keeps nothing that is
// unused, and is safe for concurrent use.
type kindsLibrary struct {
	mu       sync.Mutex
	byDigest map[[sha256.Size]byte]weak.Pointer[kindsAnswer]
}

func newKindsLibrary() *kindsLibrary {
	return &kindsLibrary{byDigest: map[[sha256.Size]byte]weak.Pointer[kindsAnswer]{}}
}

// find returns the result for the same documents, nil if it is unknown.
func (l *kindsLibrary) find(digest [sha256.Size]byte) *kindsAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byDigest[digest].Value()
}

// add returns the result for documents, or the equal result that another caller added in the meantime.
func (l *kindsLibrary) add(digest [sha256.Size]byte, answer *kindsAnswer) *kindsAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byDigest[digest].Value(); known != nil {
		return known
	}
	kept := weak.Make(answer)
	l.byDigest[digest] = kept
	runtime.AddCleanup(answer, func(digest [sha256.Size]byte) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.byDigest[digest] == kept {
			delete(l.byDigest, digest)
		}
	}, digest)
	return answer
}

// servedDocument is one of the two documents that list what a cluster serves.
type servedDocument struct {
	header http.Header
	body   []byte
}

// servedDocuments are both, by their paths.
type servedDocuments map[string]*servedDocument

// servedPaths are those of the documents: the core group, and all others.
var servedPaths = []string{"/api", "/apis"}

// documentKind is the kind of the documents of current servers; older servers have a document for each group and
// version.
var documentKind = schema.GroupVersionKind{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}

// fetchServed reads the documents. It returns false if anything is uncertain; the caller then uses the usual discovery.
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
		resp, err := k.tags.base.RoundTrip(req)
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
func (d servedDocuments) read(ctx context.Context, host rest.Config, of *version.Info) (*kindsAnswer, error) {
	host.Transport = d
	client, err := discovery.NewDiscoveryClientForConfig(&host)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's API versions: %w", err)
	}
	answer, err := readServed(ctx, client, of)
	if err == nil && answer.partial == nil {
		answer.tag = d["/apis"].header.Get("ETag")
	}
	return answer, err
}

// digest identifies the documents of a cluster of a version.
func (d servedDocuments) digest(of *version.Info) [sha256.Size]byte {
	h := sha256.New()
	encoder := json.NewEncoder(h)
	// Encoding a struct of texts into a hash cannot fail.
	_ = encoder.Encode(of)
	for _, path := range servedPaths {
		_ = encoder.Encode(len(d[path].body))
		_, _ = h.Write(d[path].body)
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}

// RoundTrip implements http.RoundTripper: it answers with the documents, and knows nothing else.
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
