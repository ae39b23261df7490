// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
)

// stateOf returns the HelmOp of the desired state in a folder.
func stateOf(folder string) *addonsv1.HelmOp {
	return &addonsv1.HelmOp{Spec: addonsv1.HelmOpSpec{
		Source: addonsv1.ArtifactSource{URL: "oci://r.example/fleet", Ref: addonsv1.ArtifactReference{Tag: "production"},
			Path: folder},
	}}
}

// stateCluster starts a management cluster with the HelmOp of a desired state, or with Helm's records of the HelmOp. It
// returns the address, and a function that returns the impersonated users of the requests.
func (b *bed) stateCluster(state *addonsv1.HelmOp,
	records ...metav1.PartialObjectMetadata,
) (url string, users func() []string) {
	var mu sync.Mutex
	var seen []string
	answers := map[string]any{
		"/api": metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"},
			Versions: []string{"v1"}},
		"/api/v1": metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "secrets", SingularName: "secret", Namespaced: true, Kind: "Secret",
				Verbs: metav1.Verbs{"list"}}},
		},
		"/api/v1/namespaces/helmop-system/secrets": metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, Items: records,
		},
		"/apis": metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"},
			Groups: []metav1.APIGroup{{
				Name: addonsv1.GroupVersion.Group,
				Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: addonsv1.GroupVersion.String(),
					Version: addonsv1.GroupVersion.Version}},
			}},
		},
		"/apis/addons.cluster.x-k8s.io/v1alpha1": metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: addonsv1.GroupVersion.String(),
			APIResources: []metav1.APIResource{{Name: "helmops", SingularName: "helmop", Namespaced: true, Kind: "HelmOp",
				Verbs: metav1.Verbs{"get"}}},
		},
	}
	if state != nil {
		state.TypeMeta = metav1.TypeMeta{APIVersion: addonsv1.GroupVersion.String(), Kind: "HelmOp"}
		answers["/apis/addons.cluster.x-k8s.io/v1alpha1/namespaces/helmop-system/helmops/cluster-state"] = state
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Get("Impersonate-User"))
		mu.Unlock()
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			b.Error(err)
		}
	}))
	b.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Compact(slices.Sorted(slices.Values(seen)))
	}
}

// TestBootstrapMakesNoEmptyStateOverAnother checks that an empty state does not replace a state that is not found, for
// example because its address is misspelled. An empty state would delete Clusters.
func TestBootstrapMakesNoEmptyStateOverAnother(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("none", "") // hides the kubeconfig of the user who runs the test
	cluster, users := b.stateCluster(stateOf(""))
	args := b.bootstrapArgs("--kubeconfig", b.path("none"), "--server", cluster, "--as", "admiral", "--timeout", "20s",
		"--pull-username", b.Username(), "--pull-password", b.Password(), "--allow-push-with-pull-credential")
	b.fails(exit.Usage, "HelmOp cluster-state follows oci://r.example/fleet:production; correct --cluster-url", args...)
	for _, repository := range []string{"helmop", "fleet"} {
		if b.run("list", b.at(repository)).code != exit.NotFound {
			t.Errorf("something was pushed to %s", repository)
		}
	}
	if got := users(); !slices.Equal(got, []string{"admiral"}) {
		t.Errorf("the cluster was asked as %q", got)
	}
	// With the flag or with an artifact, the command continues. It fails later, because there is no real cluster.
	b.fails(exit.Failed, "pushing an empty state", append(args, "--allow-empty-state")...)
	b.fails(exit.Failed, "error: reading from the management cluster: ", args...)
}

// TestBootstrapKeepsTheFolderOfTheState checks that a run without a folder keeps the folder that the cluster uses.
// Other folders may contain the Clusters of other management clusters.
func TestBootstrapKeepsTheFolderOfTheState(t *testing.T) {
	t.Parallel()
	record := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "sh.helm.release.v1.cluster-state.v1"}}
	const (
		kept = "--cluster-path is not set: the cluster keeps using the folder clusters/one\n"
		all  = "--cluster-path is not set: the cluster uses the whole artifact at "
	)
	for name, tc := range map[string]struct {
		state   *addonsv1.HelmOp
		records []metav1.PartialObjectMetadata
		args    []string
		said    string
		// empty is the file of the pushed empty state. It is empty if the command is refused before the push.
		empty string
	}{
		"a run without it": {state: stateOf("clusters/one"), said: kept, empty: "clusters/one/kustomization.yaml"},
		"one with an empty one": {state: stateOf("clusters/one"), args: []string{"--cluster-path="}, said: kept,
			empty: "clusters/one/kustomization.yaml"},
		"another folder": {state: stateOf("clusters/one"), args: []string{"--cluster-path=two"},
			empty: "two/kustomization.yaml"},
		"all of it": {state: stateOf("clusters/one"), args: []string{"--cluster-path=."},
			empty: "kustomization.yaml"},
		"all of it, as before": {state: stateOf(""), empty: "kustomization.yaml"},
		"the first run":        {said: all, empty: "kustomization.yaml"},
		"records alone":        {records: []metav1.PartialObjectMetadata{record}, said: "\".\" for the whole artifact"},
		"records and a folder": {records: []metav1.PartialObjectMetadata{record}, args: []string{"--cluster-path=."},
			empty: "kustomization.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.write("none", "")
			cluster, _ := b.stateCluster(tc.state, tc.records...)
			got := b.run(append([]string{"bootstrap", "oci", "--url", b.at("helmop:production"), "--cluster-url",
				b.at("fleet:production"),
				"--kubeconfig", b.path("none"), "--server", cluster, "--timeout", "20s", "--allow-empty-state",
				"--pull-username", b.Username(), "--pull-password", b.Password(), "--allow-push-with-pull-credential"},
				tc.args...)...)
			if !strings.Contains(got.err, tc.said) || tc.said == "" && strings.Contains(got.err, "--cluster-path is not set") {
				t.Errorf("it said %s", got.err)
			}
			if tc.empty == "" {
				if got.code != exit.Usage || b.run("list", b.at("helmop")).code != exit.NotFound {
					t.Errorf("it was not refused, or only after something was pushed: %+v", got)
				}
				return
			}
			// The command fails here, because there is no real cluster.
			if got.code != exit.Failed || !strings.Contains(got.err, "reading from the management cluster: ") {
				t.Errorf("%+v", got)
			}
			if out := b.ok("pull", b.at("fleet:production"), "--dir", b.path("out")); out != b.path("out/"+tc.empty)+"\n" {
				t.Errorf("the state is in %s", out)
			}
		})
	}
}
