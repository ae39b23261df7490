// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"net"
	"strings"
	"testing"
)

// TestMalformedResponsesAreNotQuoted checks that an error does not contain the text of a malformed response.
func TestMalformedResponsesAreNotQuoted(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"status":   "HTTP/1.1 planted-x OK\r\n\r\n",
		"no HTTP":  "planted-x 220 ready\r\n",
		"header":   "HTTP/1.1 200 OK\r\nplanted-x\r\n\r\n",
		"length":   "HTTP/1.1 200 OK\r\nContent-Length: planted-x\r\n\r\n",
		"location": "HTTP/1.1 307 Moved\r\nLocation: http://[planted-x\r\nContent-Length: 0\r\n\r\n",
		"digest":   "HTTP/1.1 200 OK\r\nDocker-Content-Digest: planted-x\r\nContent-Length: 2\r\n\r\n{}",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1024))
				_, _ = conn.Write([]byte(answer))
				_ = conn.Close()
			}
		}()
		src := Source{URL: scheme + listener.Addr().String() + "/x", Ref: Reference{Tag: "1"}, Access: Access{Insecure: true}}
		if _, err := newClient(t).Resolve(t.Context(), src); err == nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}
