// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const offlineCluster = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: planned-1, labels: {region: eu}}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: planned-1}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: planned-1}
spec: {version: v1.33.4}
---
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {values.yaml: "password: ` + planted + `"}
---
apiVersion: v1
kind: Secret
metadata: {name: planned-1-web}
stringData: {zone: eu-1}
`

// TestPreviewOffline renders for the Cluster in a file.
func TestPreviewOffline(t *testing.T) {
	t.Parallel()
	b := newPreviewBed(t, "offline")
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config, err := b.registry.DockerConfigJSON()
	if err != nil {
		t.Fatal(err)
	}
	helmOp := write("helmop.yaml", fmt.Sprintf(`apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata: {name: web}
spec:
  clusterSelector: {matchLabels: {region: eu}}
  source: {url: "oci://%s/web", ref: {tag: 1.2.3}}
  release: {name: web, namespace: apps}
  values: {cluster: "{{ .ClusterName }}", replicas: "{{ .ControlPlane.spec.version }}"}
  valuesFrom:
  - {kind: Secret, name: web, key: values.yaml}
  - {kind: Secret, name: "{{ .ClusterName }}-web", key: zone, targetPath: zone}
`, b.registry.Host()))
	args := []string{"preview", "-f", helmOp, "--cluster-file", write("cluster.yaml", offlineCluster), "--ca-file",
		b.authority, "--registry-config", write("config.json", string(config))}
	run := func(more ...string) result {
		return b.runAs(t.Context(), filepath.Join(folder, "no-kubeconfig"), "", append(args, more...)...)
	}
	got := run("--kube-version", "1.40.0")
	if got.err != nil || strings.Contains(got.out, planted) {
		t.Fatalf("got %v\n%s", got.err, got.out)
	}
	for _, want := range []string{"cluster: \"planned-1\"", "replicas: \"v1.33.4\"", "major: \"1\"",
		"name: hook", "name: from-crds",
		"https://user:[redacted]@example.com"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("want %q in\n%s", want, got.out)
		}
	}
	if shown := run("--show-secrets"); !strings.Contains(shown.out, planted) {
		t.Errorf("got %v\n%s", shown.err, shown.out)
	}
	for text, more := range map[string][]string{
		"needs -f, and cannot be used with": {"--summary"}, "the version of Kubernetes": {"--kube-version", "x"},
	} {
		if got := run(more...); got.err == nil || !strings.Contains(got.err.Error(), text) {
			t.Errorf("got %v, want %q", got.err, text)
		}
	}
	b.fails("--kube-version and --api-versions need --cluster-file", "preview", "web", "--kube-version", "1.30")
	b.fails("it has no Cluster", "preview", "-f", helmOp, "--cluster-file", helmOp)
}
