// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

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
	blockFor   = 10 * time.Minute
	maxBlocked = 4096
	// headerDigest is what registries say of the content of an answer.
	headerDigest = "Docker-Content-Digest"
)

// errMirrorContent says that a mirror sent something else than was asked for.
var errMirrorContent = fmt.Errorf("the mirror sent different content: %w", content.ErrMismatchedDigest)

// distrust remembers what mirrors sent wrong, so that a mirror with a damaged
// file does not stand before the registry that has the right one.
type mirrorBlocklist struct {
	mu   sync.Mutex
	seen *lru.LRU[string, time.Time]
}

func newMirrorBlocklist() (*mirrorBlocklist, error) {
	seen, err := lru.NewLRU[string, time.Time](maxBlocked, nil)
	if err != nil {
		return nil, err
	}
	return &mirrorBlocklist{seen: seen}, nil
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
func (d *mirrorBlocklist) holds(h *hop, path string) bool {
	if !h.mirror {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	since, ok := d.seen.Get(h.ref.String() + contentOf(path).String())
	return ok && time.Since(since) < blockFor
}

func (d *mirrorBlocklist) add(h *hop, dgst digest.Digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen.Add(h.ref.String()+dgst.String(), time.Now())
}

// watch has the mirror distrusted if what it says of its answer is not what was
// asked for, or if the body is not or breaks off. A caller that closes the body
// early may have reasons of its own, a full disk for example.
func (d *mirrorBlocklist) watch(h *hop, req *http.Request, resp *http.Response) {
	dgst := contentOf(req.URL.Path)
	if !h.mirror || req.Method != http.MethodGet || dgst == "" || resp.StatusCode != http.StatusOK {
		return
	}
	size := exchangeFrom(req.Context()).size
	if size > 0 && resp.ContentLength >= 0 && resp.ContentLength != size || contradicts(resp, dgst) {
		d.add(h, dgst)
		return
	}
	if size == 0 {
		size = resp.ContentLength
	}
	resp.Body = &checkedBody{
		ReadCloser: resp.Body,
		verifier:   dgst.Verifier(),
		rest:       size,
		sized:      size >= 0,
		bad:        func() { d.add(h, dgst) },
		left:       func() bool { return req.Context().Err() != nil },
	}
}

// contradicts says whether the header of an answer has another digest than was
// asked for. One of another algorithm says nothing.
func contradicts(resp *http.Response, dgst digest.Digest) bool {
	declared, err := digest.Parse(resp.Header.Get(headerDigest))
	return err == nil && declared.Algorithm() == dgst.Algorithm() && declared != dgst
}

// checkedBody compares a body with its digest as it is read.
type checkedBody struct {
	io.ReadCloser
	verifier digest.Verifier
	// rest is how many bytes are still to come, if sized says that it is known.
	rest  int64
	sized bool
	bad   func()
	// left says whether the caller's time is over.
	left func() bool
	// end is what was told at the end; what follows in the body is not read.
	end error
}

// Read implements io.Reader. What is wrong is told with the last byte, for a
// reader that knows the size may ask for no more.
func (b *checkedBody) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.ReadCloser.Read(p)
	_, _ = b.verifier.Write(p[:n]) // hashes do not fail
	b.rest -= int64(n)
	if err == nil && n > 0 && b.sized && b.rest <= 0 {
		err = io.EOF
	}
	switch {
	case err == nil, b.left():
		return n, err
	case errors.Is(err, io.EOF) && b.verifier.Verified(): // with a byte too many it is not
		b.end = err
		return n, err
	case errors.Is(err, io.EOF):
		err = errMirrorContent
	default:
		err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	b.end = err
	b.bad()
	return n, err
}
