// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// servedBy is an API server with certain kinds.
type servedBy struct {
	version string
	kinds   []string
	// stale makes the server report that the API service of the kinds does not respond.
	stale bool
	// old makes the server return one document for each group and version.
	old bool
}

// ServeHTTP implements http.Handler.
func (s servedBy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/version"):
		answer = map[string]string{"major": "1", "minor": "36", "gitVersion": s.version}
	case s.old && strings.HasSuffix(r.URL.Path, "/v1"):
		list := metav1.APIResourceList{GroupVersion: "things.example.com/v1"}
		for _, kind := range s.kinds {
			list.APIResources = append(list.APIResources,
				metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Verbs: metav1.Verbs{"get"}})
		}
		answer = list
	case s.old && strings.HasSuffix(r.URL.Path, "/apis"):
		served := metav1.GroupVersionForDiscovery{GroupVersion: "things.example.com/v1", Version: "v1"}
		answer = metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "things.example.com",
			Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served}}}
	case s.old:
		answer = metav1.APIVersions{}
	case strings.HasSuffix(r.URL.Path, "/apis"):
		served := apidiscoveryv2.APIVersionDiscovery{Version: "v1", Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		if s.stale {
			served.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
		}
		for _, kind := range s.kinds {
			served.Resources = append(served.Resources, apidiscoveryv2.APIResourceDiscovery{
				Resource:     strings.ToLower(kind) + "s",
				ResponseKind: &metav1.GroupVersionKind{Group: "things.example.com", Version: "v1", Kind: kind},
				Scope:        apidiscoveryv2.ScopeCluster, Verbs: []string{"get"},
			})
		}
		answer = apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"}, Versions: []apidiscoveryv2.APIVersionDiscovery{served},
		}}}
	default:
		answer = apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{{
			Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: "v1", Resources: []apidiscoveryv2.APIResourceDiscovery{{
				Resource: "pods", ResponseKind: &metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
				Scope: apidiscoveryv2.ScopeNamespace,
			}}}},
		}}}
	}
	contentType := "application/json"
	if !s.old {
		contentType += ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	}
	w.Header().Set("Content-Type", contentType)
	// All servers send the same tag: the result of one server must not be used for another.
	w.Header().Set("ETag", `"same"`)
	_ = json.NewEncoder(w).Encode(answer)
}

// TestKindsLibrarySharesEqualResults checks that clusters share a discovery result only if their documents are
// byte-identical. Charts must see the API version of an API service that does not respond.
func TestKindsLibrarySharesEqualResults(t *testing.T) {
	t.Parallel()
	shared := NewSharedState(DefaultMemory())
	learn := func(s servedBy) *kindsResult {
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		kept, err := NewCluster("", &rest.Config{Host: server.URL}, shared)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(kept.close)
		known, err := kept.Kinds.current(false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = kept.Kinds.Mapper().RESTMapping(schema.GroupKind{Group: "things.example.com", Kind: s.kinds[0]})
		if (err != nil) != s.stale {
			t.Errorf("%+v: %v", s, err)
		}
		if versions := known.capabilities.APIVersions; !versions.Has("things.example.com/v1") ||
			versions.Has("things.example.com/v1/"+s.kinds[0]) == s.stale {
			t.Errorf("%+v: charts see %v", s, versions)
		}
		return known.kindsResult
	}
	plain := servedBy{version: "v1.36.3", kinds: []string{"Thing"}}
	first := learn(plain)
	if learn(plain) != first {
		t.Error("equal results are stored twice")
	}
	other := plain
	other.kinds = []string{"Other"}
	newer := plain
	newer.version = "v1.36.4"
	old := plain
	old.old = true
	for _, s := range []servedBy{other, newer, old} {
		if learn(s) == first {
			t.Errorf("%+v is taken for another one", s)
		}
	}
	stale := plain
	stale.stale = true
	if one := learn(stale); one.partial == nil || one == learn(stale) {
		t.Error("an incomplete result is shared")
	}
	runtime.KeepAlive(first)
}
