// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content"
)

const (
	// blockFor is how long a mirror is not used for content after the mirror sent a wrong or incomplete copy.
	blockFor   = 10 * time.Minute
	maxBlocked = 4096
	// headerDigest is the header with the digest of the content in a response.
	headerDigest = "Docker-Content-Digest"
)

// errMirrorContent means that a mirror did not send the requested content.
var errMirrorContent = fmt.Errorf("the mirror sent different content: %w", content.ErrMismatchedDigest)

// mirrorBlocklist holds the mirrors that sent wrong content, by digest. Without it, a mirror with a damaged file would
// hide the registry, which has the right file. An entry is valid only for the connections that got the content: a
// tenant can choose a proxy and an authority that forge answers, and must not block the mirror for others.
type mirrorBlocklist struct{ blocked *lru.Cache[string, time.Time] }

func newMirrorBlocklist() *mirrorBlocklist {
	blocked, _ := lru.New[string, time.Time](maxBlocked) // It fails only if the size is not positive.
	return &mirrorBlocklist{blocked: blocked}
}

// contentOf returns the digest in a path of the distribution API. It returns "" for paths of tags and lists.
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

// blocks reports whether a mirror must not be used for a path.
func (d *mirrorBlocklist) blocks(h *hop, path string) bool {
	if !h.IsMirror {
		return false
	}
	since, ok := d.blocked.Get(blockKey(h, contentOf(path)))
	return ok && time.Since(since) < blockFor
}

func (d *mirrorBlocklist) add(h *hop, dgst digest.Digest) {
	d.blocked.Add(blockKey(h, dgst), time.Now())
}

// blockKey identifies a mirror, the connections to it and content.
func blockKey(h *hop, dgst digest.Digest) string {
	return fingerprint(h.transportKey, h.Ref.String(), dgst.String())
}

// watch adds the mirror to the blocklist if the headers of its response contradict the request, or if the body is wrong
// or incomplete. It ignores a body that the caller closes early. The cause may be on the caller's side, for example a
// full disk.
func (d *mirrorBlocklist) watch(h *hop, req *http.Request, resp *http.Response) {
	dgst := contentOf(req.URL.Path)
	if !h.IsMirror || req.Method != http.MethodGet || dgst == "" || resp.StatusCode != http.StatusOK {
		return
	}
	size := exchangeFrom(req.Context()).Size
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
		onMismatch: func() { d.add(h, dgst) },
		callerDone: func() bool { return req.Context().Err() != nil },
	}
}

// contradicts reports whether the header of a response has another digest than the request. A digest of another
// algorithm proves nothing.
func contradicts(resp *http.Response, dgst digest.Digest) bool {
	declared, err := digest.Parse(resp.Header.Get(headerDigest))
	return err == nil && declared.Algorithm() == dgst.Algorithm() && declared != dgst
}

// checkedBody verifies the digest of a body while it is read.
type checkedBody struct {
	io.ReadCloser
	verifier digest.Verifier
	// rest is the number of remaining bytes. It is valid only if sized is true.
	rest       int64
	sized      bool
	onMismatch func()
	// callerDone reports whether the caller's context has ended.
	callerDone func() bool
	// endErr is the error of the last read. Later reads return it, too.
	endErr error
}

// Read implements io.Reader. It returns an error together with the last byte, because a reader that knows the size may
// not call Read again.
func (b *checkedBody) Read(p []byte) (int, error) {
	if b.endErr != nil {
		return 0, b.endErr
	}
	n, err := b.ReadCloser.Read(p)
	_, _ = b.verifier.Write(p[:n]) // a hash never returns an error
	b.rest -= int64(n)
	if err == nil && n > 0 && b.sized && b.rest <= 0 {
		err = io.EOF
	}
	switch {
	case err == nil, b.callerDone():
		return n, err
	case errors.Is(err, io.EOF) && b.verifier.Verified(): // Verified is false if the body has extra bytes
		b.endErr = err
		return n, err
	case errors.Is(err, io.EOF):
		err = errMirrorContent
	default:
		err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	b.endErr = err
	b.onMismatch()
	return n, err
}
