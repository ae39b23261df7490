// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// previewedClusters is the number of Clusters in TestPreviewOfManyClusters.
const previewedClusters = 100

// TestPreviewOfManyClusters previews a new version in many Clusters and limits the number of requests for each release.
// The Clusters share one API server. The output has the measured times.
func TestPreviewOfManyClusters(t *testing.T) {
	b := newPreviewBed(t, "previewmany")
	kubeconfig, err := os.ReadFile(b.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for i := range previewedClusters {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("edge-%d", i), Namespace: b.namespace,
			Labels: map[string]string{"many": "yes"}}}
		if i == 7 {
			cluster.Labels["gateway"] = "yes"
		}
		if i%30 == 3 {
			cluster.Annotations = map[string]string{addonsv1.MaintenanceVetoAnnotation: "quarter end"}
		}
		initialized := true
		cluster.Spec.Paused = new(bool)
		cluster.Status.Initialization.ControlPlaneInitialized = &initialized
		b.create(cluster)
		b.secret(cluster.Name+"-kubeconfig", clusterv1.ClusterSecretType, "value", string(kubeconfig))
	}
	// The chart has a usual size: 20 objects of 4 kinds. The next version changes two objects, and adds one object in a
	// Cluster.
	files := func(version, value string) map[string]string {
		templates := map[string]string{"Chart.yaml": "apiVersion: v2\nname: many\nversion: " + version + "\n"}
		for i := range 5 {
			head := fmt.Sprintf("metadata: {name: object-%d}\n", i)
			maps.Copy(templates, map[string]string{
				fmt.Sprintf("templates/a%d.yaml", i): "apiVersion: v1\nkind: ConfigMap\n" + head + "data: {a: b}\n",
				fmt.Sprintf("templates/b%d.yaml", i): "apiVersion: v1\nkind: ServiceAccount\n" + head,
				fmt.Sprintf("templates/c%d.yaml", i): "apiVersion: v1\nkind: Service\n" + head + "spec: {ports: [{port: 80}]}\n",
				fmt.Sprintf("templates/d%d.yaml", i): "apiVersion: apps/v1\nkind: Deployment\n" + head +
					"spec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n" +
					"    spec: {containers: [{name: a, image: a}]}\n",
			})
		}
		if version != "1.0.0" {
			templates["templates/gateway.yaml"] = "{{ if .Values.gateway }}\napiVersion: v1\nkind: Service\n" +
				"metadata: {name: gateway}\nspec: {ports: [{port: 443}]}\n{{ end }}"
		}
		templates["templates/a0.yaml"] = strings.Replace(templates["templates/a0.yaml"], "a: b}", "a: "+value+"}", 1)
		templates["templates/d0.yaml"] = strings.Replace(templates["templates/d0.yaml"], "image: a", "image: "+value, 1)
		return templates
	}
	for version, value := range map[string]string{"1.0.0": "one", "1.1.0": "two"} {
		chart := registry.ChartFiles(files(version, value))
		if _, err := b.registry.PushChart(t.Context(), "many", version, chart); err != nil {
			t.Fatal(err)
		}
	}
	helmOp := b.helmOp("web")
	helmOp.ObjectMeta = metav1.ObjectMeta{Name: "many", Namespace: b.namespace}
	helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"many": "yes"}}
	helmOp.Spec.Source.URL, helmOp.Spec.Source.Ref.Tag = "oci://"+b.registry.Host()+"/many", "1.0.0"
	helmOp.Spec.Release.Name, helmOp.Spec.Overrides, helmOp.Spec.PostRender = "many", nil, nil
	helmOp.Spec.Values, helmOp.Spec.ValuesFrom = nil, nil
	helmOp.Spec.ValuesTemplate = `gateway: {{ hasKey .Cluster.metadata.labels "gateway" }}`
	helmOp.Status.Artifact = nil
	b.create(helmOp)
	b.install("many", client.ObjectKey{Namespace: b.namespace, Name: "edge-0"})

	before, start := b.requests(), time.Now()
	got := b.run("preview", "--ca-file", b.authority, "many", "--set-version", "1.1.0")
	elapsed, requests := time.Since(start), b.requests()-before
	if !errors.Is(got.err, kube.ErrDiffers) {
		t.Errorf("got %v\n%s%s", got.err, got.out, got.errOut)
	}
	b.compare("preview-many", got.out)
	each := float64(requests) / previewedClusters
	t.Logf("%d Clusters in %s, %.1f requests for each", previewedClusters, elapsed.Round(time.Millisecond), each)
	// 2 requests go to the management cluster. 3 are for the discovery, 2 for the records, 4 for lists and 2 for dry
	// runs.
	const most = 14
	if each > most {
		t.Errorf("%.1f requests for each Cluster", each)
	}
}

// requests returns the number of answered requests, except watches and requests of the API server itself.
func (b *previewBed) requests() int {
	b.Helper()
	data, err := b.admin().CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	sum := 0
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok || !strings.HasPrefix(name, "apiserver_request_total{") || strings.Contains(name, `verb="WATCH"`) ||
			strings.Contains(name, "leases") {
			continue
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += int(count)
	}
	return sum
}
