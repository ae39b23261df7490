// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
)

// TestSilentCluster has a Cluster whose API server does not answer.
func TestSilentCluster(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	c := newClusterClient(t, server.URL)
	var notes []string
	p := plain{release: "tigera/calico", timeout: 100 * time.Millisecond,
		source: addonsv1.ArtifactSource{URL: "oci://registry.example/charts/calico"}}
	_, err := p.plan(t.Context(), &kube.Client{WithWatch: c, Namespace: "fleet", Note: func(f string, args ...any) {
		notes = append(notes, fmt.Sprintf(f, args...))
	}})
	if want := "no Cluster that answers has the release tigera/calico, and 1 Cluster was skipped"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("error: %v", err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "Cluster one is skipped") ||
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

// newClusterClient returns a client of a management cluster with the Cluster "one", whose API server has an address.
func newClusterClient(t *testing.T, address string) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, addonsv1.AddToScheme} {
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
`, address)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one-kubeconfig"},
			Data: map[string][]byte{"value": []byte(config)}}).Build()
}

// TestRecordInRefusesFiles expects that a kubeconfig that names a file is refused before the file is read.
func TestRecordInRefusesFiles(t *testing.T) {
	t.Parallel()
	c := newClusterClient(t, "https://127.0.0.1:1")
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "one-kubeconfig"}, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["value"] = bytes.ReplaceAll(secret.Data["value"], []byte("token: one"), []byte("tokenFile: /nowhere"))
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	_, err := recordIn(t.Context(), &kube.Client{WithWatch: c}, types.NamespacedName{Namespace: "fleet", Name: "one"},
		"apps", "calico")
	if !errors.Is(err, clusterview.ErrKubeconfigRefused) {
		t.Errorf("got %v", err)
	}
}

// records is an API server with records of Helm.
type records struct {
	*testing.T

	// revisions holds the revisions by the names of their Secrets. lost is a Secret that is deleted after it was listed.
	revisions map[string]int
	lost      string

	// read are the Secrets whose content was read.
	read []string
}

func (r *records) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	name, isOne := strings.CutPrefix(request.URL.Path, "/api/v1/namespaces/apps/secrets/")
	var answer any
	switch revision, found := r.revisions[name]; {
	case isOne && !found:
		w.WriteHeader(http.StatusNotFound)
		answer = apierrors.NewNotFound(corev1.Resource("secrets"), name).Status()
	case isOne:
		r.read = append(r.read, name)
		answer = &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			Data: map[string][]byte{"release": r.record(revision)}}
	default:
		if !strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			r.Errorf("the contents of all records are read: %s", request.Header.Get("Accept"))
		}
		if got := request.URL.Query().Get("labelSelector"); got != "name=calico,owner=helm" {
			r.Errorf("selector %q", got)
		}
		list := &metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		for name, revision := range r.revisions {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name,
					Labels: map[string]string{"version": strconv.Itoa(revision)}}})
		}
		answer = list
		delete(r.revisions, r.lost)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		r.Error(err)
	}
}

// record returns a record as Helm stores it.
func (r *records) record(revision int) []byte {
	var data bytes.Buffer
	encoder := base64.NewEncoder(base64.StdEncoding, &data)
	compressor := gzip.NewWriter(encoder)
	_, err := fmt.Fprintf(compressor, `{"name": "calico", "namespace": "apps", "version": %d, "info": {"status": "deployed"},
		"chart": {"metadata": {"name": "calico", "version": "1.0.0"}}}`, revision)
	if err := errors.Join(err, compressor.Close(), encoder.Close()); err != nil {
		r.Error(err)
	}
	return data.Bytes()
}

// TestRecordIn checks that only the newest record is read, even if it is deleted in the meantime.
func TestRecordIn(t *testing.T) {
	for name, test := range map[string]struct {
		revisions map[string]int
		lost      string
		want      int64
		read      []string
	}{
		"none":   {},
		"many":   {revisions: map[string]int{"v9": 9, "v10": 10, "v2": 2}, want: 10, read: []string{"v10"}},
		"lost":   {revisions: map[string]int{"v9": 9, "v10": 10}, lost: "v10", want: 9, read: []string{"v9"}},
		"a last": {revisions: map[string]int{"v1": 1}, lost: "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &records{T: t, revisions: test.revisions, lost: test.lost}
			server := httptest.NewServer(r)
			defer server.Close()
			record, err := recordIn(t.Context(), &kube.Client{WithWatch: newClusterClient(t, server.URL)},
				types.NamespacedName{Namespace: "fleet", Name: "one"}, "apps", "calico")
			if err != nil {
				t.Fatal(err)
			}
			if (record == nil) != (test.want == 0) || record != nil && record.Revision != test.want {
				t.Errorf("record: %+v", record)
			}
			if diff := cmp.Diff(test.read, r.read); diff != "" {
				t.Error(diff)
			}
		})
	}
}
