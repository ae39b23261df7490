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
	// blockFor is how long a mirror is not used for content after it sent a wrong or incomplete copy.
	blockFor   = 10 * time.Minute
	maxBlocked = 4096
	// headerDigest is the header with the digest of the content of an answer.
	headerDigest = "Docker-Content-Digest"
)

// errMirrorContent means that a mirror sent other content than requested.
var errMirrorContent = fmt.Errorf("the mirror sent different content: %w", content.ErrMismatchedDigest)

// mirrorBlocklist holds which mirrors sent wrong content. A mirror with a damaged file must not
// hide the registry, which has the right file.
type mirrorBlocklist struct{ blocked *lru.Cache[string, time.Time] }

func newMirrorBlocklist() *mirrorBlocklist {
	blocked, _ := lru.New[string, time.Time](maxBlocked) // It fails only if the size is not positive.
	return &mirrorBlocklist{blocked: blocked}
}

// contentOf returns the digest in a path of the distribution API, or "" for tags and lists.
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
	since, ok := d.blocked.Get(h.Ref.String() + contentOf(path).String())
	return ok && time.Since(since) < blockFor
}

func (d *mirrorBlocklist) add(h *hop, dgst digest.Digest) {
	d.blocked.Add(h.Ref.String()+dgst.String(), time.Now())
}

// watch adds the mirror to the blocklist if the headers of its answer contradict the request, or if
// the body is wrong or incomplete. A body that the caller closes early does not count, because the
// cause may be the caller's, for example a full disk.
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

// contradicts reports whether the header of an answer has another digest than requested. A digest
// of another algorithm proves nothing.
func contradicts(resp *http.Response, dgst digest.Digest) bool {
	declared, err := digest.Parse(resp.Header.Get(headerDigest))
	return err == nil && declared.Algorithm() == dgst.Algorithm() && declared != dgst
}

// checkedBody verifies the digest of a body while it is read.
type checkedBody struct {
	io.ReadCloser
	verifier digest.Verifier
	// rest is the number of remaining bytes, if sized is set.
	rest       int64
	sized      bool
	onMismatch func()
	// callerDone reports whether the caller's context has ended.
	callerDone func() bool
	// endErr is the result of the last read. The body is not read beyond it.
	endErr error
}

// Read implements io.Reader. It returns an error together with the last byte, because a reader that
// has the size may not read again.
func (b *checkedBody) Read(p []byte) (int, error) {
	if b.endErr != nil {
		return 0, b.endErr
	}
	n, err := b.ReadCloser.Read(p)
	_, _ = b.verifier.Write(p[:n]) // hashes do not fail
	b.rest -= int64(n)
	if err == nil && n > 0 && b.sized && b.rest <= 0 {
		err = io.EOF
	}
	switch {
	case err == nil, b.callerDone():
		return n, err
	case errors.Is(err, io.EOF) && b.verifier.Verified(): // false if the body has extra bytes
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
