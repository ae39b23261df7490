// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"io"
	"net/http"
	"time"
)

// faultKey is the key of the *activeFault in the context of a request to the registry.
type faultKey struct{}

// damage applies the fault of the request to the body of the registry's answer.
func damage(resp *http.Response) error {
	ctx := resp.Request.Context()
	fault, _ := ctx.Value(faultKey{}).(*activeFault)
	if fault == nil || resp.StatusCode != http.StatusOK || resp.Request.Method == http.MethodHead {
		return nil
	}
	half := max(resp.ContentLength/2, 0)
	switch fault.Mode {
	case Drip:
		resp.Body = &drip{ReadCloser: resp.Body, pause: fault.Pause, over: fault.over, gone: ctx.Done()}
	case Truncate:
		resp.Body = &truncated{ReadCloser: resp.Body, left: half}
	case Corrupt:
		resp.Body = &corrupted{ReadCloser: resp.Body, until: half}
	}
	return nil
}

// drip returns one byte at a time, until the fault ends.
type drip struct {
	io.ReadCloser
	pause      time.Duration
	over, gone <-chan struct{}
}

func (d *drip) Read(p []byte) (int, error) {
	timer := time.NewTimer(d.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return d.ReadCloser.Read(p[:min(len(p), 1)])
	case <-d.over:
		return d.ReadCloser.Read(p)
	case <-d.gone:
		return 0, io.ErrUnexpectedEOF
	}
}

// truncated ends with an error, so that the proxy breaks the connection.
type truncated struct {
	io.ReadCloser
	left int64
}

func (t *truncated) Read(p []byte) (int, error) {
	if t.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := t.ReadCloser.Read(p[:min(int64(len(p)), t.left)])
	t.left -= int64(n)
	return n, err
}

// corrupted changes the byte after until.
type corrupted struct {
	io.ReadCloser
	until int64
}

func (c *corrupted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.until >= 0 && c.until < int64(n) {
		p[c.until] ^= 0xff
	}
	c.until -= int64(n)
	return n, err
}
