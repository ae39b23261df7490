// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import "net/http"

// expectedObject is an object that an action changes without reading it. The change has a precondition, so the API
// server refuses the change if the object is different.
type expectedObject struct {
	path string
	// content is the expected content of the object, as JSON.
	content []byte
	// refused means that the API server refused a change of the object.
	refused bool
}

// Expect makes reads of the object at a path return content, without a request, until end is called. refused reports
// whether the API server refused a change of the object in the meantime. ok is false if the reads of this Getter are
// not cached. Only one object can be expected at a time.
func (g *Getter) Expect(path string, content []byte) (end func() (refused bool), ok bool) {
	reads, ok := g.Config.Transport.(*readCache)
	if !ok {
		return nil, false
	}
	expected := &expectedObject{path: path, content: content}
	reads.expect(expected)
	return func() bool {
		reads.expect(nil)
		return expected.refused
	}, true
}

// ExpectMissing makes reads of the objects at paths return that the objects do not exist, without a request, until the
// next write. It returns false, and does nothing, if the reads of this Getter are not cached.
func (g *Getter) ExpectMissing(paths []string) bool {
	reads, ok := g.Config.Transport.(*readCache)
	if !ok {
		return false
	}
	reads.mu.Lock()
	defer reads.mu.Unlock()
	clear(reads.expectedMissing)
	for _, path := range paths {
		reads.expectedMissing[path] = true
	}
	return true
}

func (c *readCache) expect(expected *expectedObject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected = expected
}

// expectedAt returns the expected object at a path; nil if there is none.
func (c *readCache) expectedAt(path string) *expectedObject {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expected == nil || c.expected.path != path {
		return nil
	}
	return c.expected
}

// sendExpected answers a read of an expected object, or sends a change and notes whether it was refused.
func (c *readCache) sendExpected(req *http.Request, expected *expectedObject) (*http.Response, error) {
	if req.Method == http.MethodGet {
		known := &cachedRead{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}},
			body: expected.content}
		return known.response(req), nil
	}
	resp, err := c.send(req)
	if err != nil {
		return resp, err
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		c.mu.Lock()
		defer c.mu.Unlock()
		expected.refused = true
	}
	return resp, nil
}
