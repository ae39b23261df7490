// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// repeatedText returns texts with the numbers from zero.
func repeatedText(format string, count int) string {
	var out strings.Builder
	for i := range count {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, format, i)
	}
	return out.String()
}

// TestDiscoveryIsLimited checks that a server cannot fill the memory with the kinds that it serves.
func TestDiscoveryIsLimited(t *testing.T) {
	t.Parallel()
	const (
		resource = `{"resource":"a%[1]d","responseKind":{"group":"g0","version":"v1","kind":"A%[1]d"},` +
			`"scope":"Cluster","verbs":["get"]}`
		legacy = `{"name":"a%[1]d","kind":"A%[1]d","verbs":["get"]}`
		group  = `{"name":"g%[1]d","versions":[{"groupVersion":"g%[1]d/v1","version":"v1"}]}`
		stale  = `{"version":"v%d","freshness":"Stale"}`
	)
	aggregated := func(versions string) string {
		return `{"items":[{"metadata":{"name":"g0"},"versions":[` + versions + `]}]}`
	}
	versionOf := func(resources int) string {
		return `{"version":"v1","resources":[` + repeatedText(resource, resources) + `]}`
	}
	for name, tc := range map[string]struct {
		// apis and version are the list of groups, and the list of the resources of each group.
		apis, version string
		isOld         bool
		want          string
		requests      int64
	}{
		"many resources":          {apis: aggregated(versionOf(5_000))},
		"too many resources":      {apis: aggregated(versionOf(maxKindsResources + 1)), want: "8001 resources"},
		"too many versions":       {apis: aggregated(repeatedText(`{"version":"v%d"}`, 1_001)), want: "1001 API groups"},
		"too many stale versions": {apis: aggregated(repeatedText(stale, 1_001)), want: "1001 API groups"},
		"too large":               {apis: aggregated(versionOf(1)) + strings.Repeat(" ", maxKindsBytes), want: "8 MiB"},
		"old, many resources":     {isOld: true, apis: repeatedText(group, 1), version: repeatedText(legacy, 5_000)},
		"old, too many groups":    {isOld: true, apis: repeatedText(group, 1_001), want: "1002 API groups", requests: 6},
		"old, too many resources": {isOld: true, apis: repeatedText(group, 1), version: repeatedText(legacy, 8_001),
			want: "8001 resources"},
		"old, too large resources": {isOld: true, apis: repeatedText(group, 9), version: strings.Repeat(" ", 1<<20),
			want: "8 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				mediaType := "application/json"
				var text string
				switch {
				case r.URL.Path == "/version":
					text = `{"major":"1","minor":"36","gitVersion":"v1.36.0"}`
				case r.URL.Path == "/api" && tc.isOld:
					text = `{"versions":["v1"]}`
				case r.URL.Path == "/api/v1":
					text = `{"groupVersion":"v1","resources":[]}`
				case r.URL.Path == "/apis" && tc.isOld:
					text = `{"groups":[` + tc.apis + `]}`
				case tc.isOld:
					text = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"` +
						strings.TrimPrefix(r.URL.Path, "/apis/") + `","resources":[` + tc.version + `]}`
				default:
					mediaType += ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
					text = map[string]string{"/api": `{"items":[]}`, "/apis": tc.apis}[r.URL.Path]
				}
				w.Header().Set("Content-Type", mediaType)
				_, _ = io.WriteString(w, text)
			}))
			t.Cleanup(server.Close)
			kept, err := NewCluster("", &rest.Config{Host: server.URL}, NewSharedState(DefaultMemory()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(kept.close)
			_, err = kept.Kinds.current(false)
			if tc.want == "" {
				if err == nil {
					_, err = kept.Kinds.Mapper().RESTMapping(schema.GroupKind{Group: "g0", Kind: "A4999"})
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) ||
				!errors.Is(helmerr.Classify(err), helmerr.ErrUnreachable) {
				t.Errorf("got %v", err)
			}
			if got := requests.Load(); tc.requests > 0 && got > tc.requests {
				t.Errorf("%d requests", got)
			}
		})
	}
}
