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

package oci

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content"
)

const (
	// distrustFor is how long a mirror is not asked again for content that it sent
	// wrong or broken.
	distrustFor   = 10 * time.Minute
	maxDistrusted = 4096
)

// errMirrorContent says that a mirror sent something else than was asked for.
var errMirrorContent = fmt.Errorf("the mirror sent other content: %w", content.ErrMismatchedDigest)

// distrust remembers what mirrors sent wrong, so that a mirror with a damaged
// file does not stand before the registry that has the right one.
type distrust struct {
	mu   sync.Mutex
	seen *lru.LRU[string, time.Time]
}

func newDistrust() (*distrust, error) {
	seen, err := lru.NewLRU[string, time.Time](maxDistrusted, nil)
	if err != nil {
		return nil, err
	}
	return &distrust{seen: seen}, nil
}

// contentOf returns the digest of the content that a path of the distribution
// API names, or "" for tags and lists.
func contentOf(path string) digest.Digest {
	if !strings.Contains(path, "/blobs/") && !strings.Contains(path, "/manifests/") {
		return ""
	}
	dgst, err := digest.Parse(path[strings.LastIndex(path, "/")+1:])
	if err != nil {
		return ""
	}
	return dgst
}

// holds says whether a mirror is out of question for a path.
func (d *distrust) holds(h *hop, path string) bool {
	if !h.mirror {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	since, ok := d.seen.Get(h.ref.String() + contentOf(path).String())
	return ok && time.Since(since) < distrustFor
}

func (d *distrust) add(h *hop, dgst digest.Digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen.Add(h.ref.String()+dgst.String(), time.Now())
}

// watch has the mirror distrusted if the body of an answer is not what was asked
// for, breaks off, or is given up by the caller for another reason than its time.
func (d *distrust) watch(h *hop, req *http.Request, resp *http.Response) {
	dgst := contentOf(req.URL.Path)
	if !h.mirror || req.Method != http.MethodGet || dgst == "" || resp.StatusCode != http.StatusOK {
		return
	}
	resp.Body = &checkedBody{
		ReadCloser: resp.Body,
		verifier:   dgst.Verifier(),
		rest:       resp.ContentLength,
		bad:        func() { d.add(h, dgst) },
		left:       func() bool { return req.Context().Err() != nil },
	}
}

// checkedBody compares a body with its digest as it is read.
type checkedBody struct {
	io.ReadCloser
	verifier digest.Verifier
	// rest is how many bytes are still to come, negative if that is not known.
	rest int64
	bad  func()
	// left says whether the caller's time is over.
	left  func() bool
	ended bool
}

// Read implements io.Reader. What is wrong is told with the last byte, for a
// reader that knows the size may ask for no more.
func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.verifier.Write(p[:n]) // hashes do not fail
	b.rest -= int64(n)
	if err == nil && n > 0 && b.rest == 0 {
		err = io.EOF
	}
	switch {
	case err == nil, b.ended, b.left():
		return n, err
	case errors.Is(err, io.EOF) && b.verifier.Verified():
		b.ended = true
		return n, err
	case errors.Is(err, io.EOF):
		err = errMirrorContent
	default:
		err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	b.ended = true
	b.bad()
	return n, err
}

// Close implements io.Closer.
func (b *checkedBody) Close() error {
	if !b.ended && !b.left() {
		b.bad()
	}
	return b.ReadCloser.Close()
}
