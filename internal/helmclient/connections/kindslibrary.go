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

// kindsLibrary shares what clusters serve among those that serve the same, as the clusters of a fleet mostly do: it is half a
// megabyte each, and takes longer to read than anything else about a cluster. Only answers that are the same to the last
// byte are shared, so that no cluster has a say in what is taken for another one's. It keeps nothing that nobody
// uses, and is safe for concurrent use.
type kindsLibrary struct {
	mu       sync.Mutex
	byDigest map[[sha256.Size]byte]weak.Pointer[kindsAnswer]
}

func newKindsLibrary() *kindsLibrary {
	return &kindsLibrary{byDigest: map[[sha256.Size]byte]weak.Pointer[kindsAnswer]{}}
}

// find returns what was read of the same documents, nil if nobody has it.
func (l *kindsLibrary) find(digest [sha256.Size]byte) *kindsAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byDigest[digest].Value()
}

// add returns what was read of documents, or what somebody else has read of the same ones meanwhile.
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

// servedDocument is one of the two documents in which a cluster says what it serves.
type servedDocument struct {
	header http.Header
	body   []byte
}

// servedDocuments are both, by their paths.
type servedDocuments map[string]*servedDocument

// servedPaths are those of the documents: the core group, and all others.
var servedPaths = []string{"/api", "/apis"}

// documentKind is what the documents are of servers of today; older ones have a document for each group and version.
var documentKind = schema.GroupVersionKind{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}

// fetchServed reads the documents. False is any doubt: then the cluster is to be asked in the usual way.
func (k *Kinds) fetchServed(ctx context.Context) (servedDocuments, bool) {
	documents := servedDocuments{}
	for _, path := range servedPaths {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.live.RESTClient().Get().AbsPath(path).URL().String(), nil)
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

// read reads what the documents say.
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
	// Neither a struct of texts nor a hash can fail.
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
				Header: document.header.Clone(), Body: io.NopCloser(bytes.NewReader(document.body)), ContentLength: int64(len(document.body)),
			}, nil
		}
	}
	return nil, errNoKinds
}
