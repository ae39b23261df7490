// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeextension

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// readingServer serves a handler that reads the whole body, with the limits.
func readingServer(t *testing.T) (*limitedServer, *httptest.Server) {
	t.Helper()
	mux := http.NewServeMux()
	limited := newLimitedServer(webhook.NewServer(webhook.Options{WebhookMux: mux}))
	limited.Register("/read", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	served := httptest.NewUnstartedServer(mux)
	served.EnableHTTP2 = true
	served.StartTLS()
	t.Cleanup(served.Close)
	return limited, served
}

func TestLimitedServer(t *testing.T) {
	t.Parallel()
	limited, served := readingServer(t)
	send := func(body io.Reader) int {
		response, err := served.Client().Post(served.URL+"/read", "application/json", body)
		if err != nil {
			t.Error(err)
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	hanging, _ := io.Pipe()
	for name, tc := range map[string]struct {
		body io.Reader
		want int
	}{
		"a call": {body: strings.NewReader("{}"), want: http.StatusOK},
		"a large body": {body: strings.NewReader(strings.Repeat(" ", maxBody+1)),
			want: http.StatusRequestEntityTooLarge},
		"a large stream":    {body: io.LimitReader(neverEnding{}, maxBody+1), want: http.StatusBadRequest},
		"a body in pieces":  {body: io.LimitReader(neverEnding{}, 100), want: http.StatusOK},
		"a body that hangs": {body: hanging, want: http.StatusBadRequest},
	} {
		if got := send(tc.body); got != tc.want {
			t.Errorf("%s: status %d, want %d", name, got, tc.want)
		}
	}
	for range maxCalls {
		limited.calls <- struct{}{}
	}
	if got := send(strings.NewReader("{}")); got != http.StatusServiceUnavailable {
		t.Errorf("a call too many: status %d", got)
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	return copy(p, slices.Repeat([]byte(" "), len(p))), nil
}

// TestHandlersOfShards checks that a call for one shard has a path that the manager of another shard does not serve.
func TestHandlersOfShards(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, shard := range []string{"", "b", strings.Repeat("c", 63)} {
		for _, handler := range (&hooks{}).handlers(shard) {
			if other, found := seen[handler.Name]; found {
				t.Errorf("shards %q and %q have the handler %s", other, shard, handler.Name)
			}
			if problems := validation.IsDNS1123Label(handler.Name); len(problems) > 0 {
				t.Errorf("%s: %v", handler.Name, problems)
			}
			seen[handler.Name] = shard
		}
	}
}
