// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/pack"
	helmrendering "github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Serve(helmrendering.Tasks(), bundle.Tasks())
	os.Exit(m.Run())
}

// chartOf returns a chart or a folder of files as an artifact.
func chartOf(t *testing.T, files map[string]string) bundle.Source {
	t.Helper()
	folder := t.TempDir()
	for name, data := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	artifact, err := pack.Pack(folder, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source := bundle.Source{Digest: artifact.Manifest.Digest.String(), Name: "artifact"}
	for _, blob := range artifact.Blobs() {
		if blob.MediaType == bundle.ChartLayerMediaType || blob.MediaType == bundle.FluxLayerMediaType {
			source.Layers = []bundle.Layer{{MediaType: blob.MediaType, Size: blob.Size}}
			source.ReadLayer = func(context.Context, int) ([]byte, error) { return blob.Content, nil }
		}
	}
	return source
}

func TestObjects(t *testing.T) {
	t.Parallel()
	source := chartOf(t, map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: c\nversion: 1.0.0\nkubeVersion: \">=99.0.0\"\n",
		"values.yaml": "name: own\nkept: yes\n",
		"crds/crd.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\n" +
			"spec: {}\n",
		"templates/NOTES.txt": "no: {object",
		"templates/_help.tpl": `{{ define "n" }}{{ .Values.name }}{{ end }}`,
		"templates/a.yaml": "---\n# none\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include \"n\" . }}\n" +
			"  namespace: {{ .Release.Namespace }}\ndata: {kept: {{ .Values.kept | quote }}, release: {{ .Release.Name }}}\n",
		"templates/hook.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: test}\n",
		"templates/list.yaml": "apiVersion: v1\nkind: SecretList\nitems:\n- metadata: {name: s}\n",
	})
	objects, err := Objects(t.Context(), source, "r", "ns", map[string]any{"name": "given"})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, object := range objects {
		found[bundle.ObjectName(object)] = object.Object["data"]
	}
	want := map[string]any{"CustomResourceDefinition.apiextensions.k8s.io a.b": nil, "Secret s": nil, "Pod hook": nil,
		"ConfigMap ns/given": map[string]any{"kept": "true", "release": "r"}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestObjectsOfEndlessChart checks that a chart that does not end is stopped with the context.
func TestObjectsOfEndlessChart(t *testing.T) {
	t.Parallel()
	source := chartOf(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n",
		"templates/a.yaml": `{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}`})
	// On a busy machine, a short time is over before the rendering begins.
	var err error
	isStopped := false
	for wait := time.Second; !isStopped && wait < time.Minute; wait *= 4 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), wait, errors.New("the time is over"))
		_, err = Objects(ctx, source, "r", "ns", nil)
		cancel()
		isStopped = err != nil && strings.HasPrefix(err.Error(), "the time is over: ") &&
			!errors.Is(err, context.DeadlineExceeded)
	}
	if !isStopped {
		t.Errorf("got %v", err)
	}
}

// TestObjectsOfEndlessKustomization checks that only the context limits the CPU time and the time of a build, and that
// the error says what users of the plugin can do.
func TestObjectsOfEndlessKustomization(t *testing.T) {
	t.Parallel()
	var kustomization, manifests strings.Builder
	fmt.Fprintf(&kustomization, "resources: [a.yaml]\nlabels:\n- pairs: {l: %q}\n  fields:\n", strings.Repeat("x", 60))
	for i := range 3000 {
		fmt.Fprintf(&kustomization, "  - {path: f%d, create: true}\n", i)
	}
	for i := range 1000 {
		fmt.Fprintf(&manifests, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\n", i)
	}
	source := chartOf(t, map[string]string{"kustomization.yaml": kustomization.String(), "a.yaml": manifests.String()})
	var err error
	var limited *sandbox.LimitError
	// On a busy machine, a short time is over before the build begins.
	for wait := 2 * time.Second; limited == nil && wait < time.Minute; wait *= 4 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), wait, errors.New("the time is over"))
		_, err = Objects(ctx, source, "r", "ns", nil)
		cancel()
		errors.As(err, &limited)
	}
	if limited == nil {
		t.Fatalf("got %v", err)
	}
	want := "the time is over: render limit exceeded: building the kustomization in the root was stopped: it was not " +
		"done in time; make its output smaller, or raise --timeout"
	if err.Error() != want || limited.Limits.CPU < 24*time.Hour || limited.Limits.Time < 24*time.Hour {
		t.Errorf("got %v with %+v", err, limited.Limits)
	}
	for _, limit := range sandbox.AllLimits {
		limited.Limit = limit
		if remedy := limited.Remedy(); remedy == "" || strings.Contains(remedy, "manager") {
			t.Errorf("%s: %q", limit, remedy)
		}
	}
}
