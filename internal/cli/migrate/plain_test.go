// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// TestSilentCluster has a Cluster whose API server does not answer.
func TestSilentCluster(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: %q}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
users: [{name: one, user: {token: one}}]
`, server.URL)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one-kubeconfig"},
			Data: map[string][]byte{"value": []byte(config)}}).Build()
	var notes []string
	p := plain{release: "tigera/calico", timeout: 100 * time.Millisecond,
		source: addonsv1.ArtifactSource{URL: "oci://registry.example/charts/calico"}}
	plan, err := p.plan(t.Context(), &kube.Client{WithWatch: c, Namespace: "fleet", Note: func(f string, args ...any) {
		notes = append(notes, fmt.Sprintf(f, args...))
	}})
	if err != nil || len(plan.Items) > 0 {
		t.Fatalf("%v, %v", plan, err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "Cluster one is left out") ||
		!strings.Contains(notes[0], "context deadline exceeded") {
		t.Errorf("notes: %v", notes)
	}
}

func TestPlainUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		plain plain
		want  string
	}{
		"no release":            {plain{source: addonsv1.ArtifactSource{URL: "oci://c"}}, "--release NAMESPACE/NAME"},
		"a release alone":       {plain{release: "b", source: addonsv1.ArtifactSource{URL: "oci://c"}}, "--release NAMESPACE"},
		"no address":            {plain{release: "a/b"}, "--chart-url"},
		"another address":       {plain{release: "a/b", source: addonsv1.ArtifactSource{URL: "ftp://c"}}, "--chart-url"},
		"a name and a registry": {plain{release: "a/b", source: addonsv1.ArtifactSource{URL: "oci://c", Chart: "d"}}, "--chart is"},
	} {
		if _, err := tc.plain.plan(t.Context(), nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
