// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestWatchesAreNotCompressed: API servers compress long responses of clients that accept it, and a decompressor would
// be kept for each watch.
func TestWatchesAreNotCompressed(t *testing.T) {
	t.Parallel()
	accepted := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		accepted <- r.Header.Get("Accept-Encoding")
	}))
	t.Cleanup(server.Close)
	for _, mode := range []mode{whole, metadataOnly, helmRecords} {
		link, err := newLink(New(Options{}), linkID{}, Connection{Config: &rest.Config{Host: server.URL}})
		if err != nil {
			t.Fatal(err)
		}
		f := feed{stream: &stream{link: link, key: streamKey{resource: secrets.GroupVersionResource, mode: mode}}}
		body, err := f.request().Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = body.Close()
		if got := <-accepted; got != "identity" {
			t.Errorf("mode %d: encoding %q is accepted", mode, got)
		}
	}
}
