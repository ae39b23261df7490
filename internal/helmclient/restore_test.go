// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// TestObservationsShowRestore checks that a list of records with a lower resourceVersion than an earlier one drops the
// cached data of the cluster and is reported once.
func TestObservationsShowRestore(t *testing.T) {
	t.Parallel()
	version := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query := r.URL.Query(); query.Has("resourceVersion") {
			t.Errorf("%s may return an old state", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			ListMeta: metav1.ListMeta{ResourceVersion: version},
		})
	}))
	t.Cleanup(server.Close)
	client := New(testRunner)
	var restored []string
	client.OnRestore(func(cluster string) { restored = append(restored, cluster) })
	target := model.Target{Key: "default/c", Config: &rest.Config{Host: server.URL}}
	release := objectinfo.ReleaseName{Namespace: "apps", Name: "demo"}
	seen := map[inventory.Ref]model.ObjectVersion{{Version: "v1", Kind: "ConfigMap", Name: "a"}: {UID: "u", Number: 7}}
	for _, step := range []struct {
		version   string
		namespace bool
		restored  bool
	}{
		{version: "100"}, {version: "100"}, {version: "120", namespace: true}, {version: "99", restored: true},
		{version: "99"}, {version: "110"}, {version: "109", namespace: true, restored: true}, {version: "109"},
		{version: "not-a-number"}, {version: "108"},
	} {
		version, restored = step.version, nil
		client.Saw(target.Key, "apps", "demo", seen)
		var err error
		if step.namespace {
			_, err = client.ObserveNamespace(t.Context(), target, "apps", "demo")
		} else {
			_, err = client.Observe(t.Context(), target, "apps", "demo")
		}
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if step.restored {
			want = []string{target.Key}
		}
		if !slices.Equal(restored, want) {
			t.Errorf("after a list at %s: restored are %v, want %v", step.version, restored, want)
		}
		if versions, _ := client.versions.Get(target.Key, release); (len(versions) == 0) != step.restored {
			t.Errorf("after a list at %s: versions %v are cached", step.version, versions)
		}
	}
}
