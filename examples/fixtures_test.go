// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// managementCluster is the name of the management cluster in golden files.
const managementCluster = "management"

// example is the content of one file, with the sample Clusters.
type example struct {
	helmOps  []*addonsv1.HelmOp
	clusters map[string]client.ObjectKey // by name
	reader   *preview.Objects
}

func exampleFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.yaml", filepath.Join("features", "*.yaml")} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("there is no %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// readExample decodes HelmOps strictly: a field that the API does not have is an error.
func readExample(t *testing.T, file string) *example {
	t.Helper()
	e := &example{clusters: map[string]client.ObjectKey{managementCluster: clusterlink.Management}}
	system := &unstructured.Unstructured{}
	system.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(apiutil.KindNamespace))
	system.SetName("kube-system")
	objects := append(sampleClusters(t), system)
	for _, object := range objects {
		if object.GetKind() == apiutil.ClusterKind {
			e.clusters[object.GetName()] = client.ObjectKeyFromObject(object)
		}
	}
	for _, document := range documents(t, file) {
		object := parse(t, file, document)
		if object.GroupVersionKind() != addonsv1.GroupVersion.WithKind("HelmOp") {
			objects = append(objects, object)
			continue
		}
		helmOp := &addonsv1.HelmOp{}
		if err := yaml.UnmarshalStrict(document, helmOp); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		e.helmOps = append(e.helmOps, helmOp)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(addonsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	e.reader = preview.NewObjects(scheme, objects)
	return e
}

// selected returns the names of the Clusters that a HelmOp selects, in their order.
func (e *example) selected(t *testing.T, helmOp *addonsv1.HelmOp) []string {
	t.Helper()
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		t.Fatalf("HelmOp %s: %v", helmOp.Name, err)
	}
	var names []string
	for name := range e.clusters {
		cluster := e.cluster(t, name)
		if !selector.Matches(cluster) {
			continue
		}
		selects, err := selector.Selects(t.Context(), e.reader, cluster)
		if client.IgnoreNotFound(err) != nil {
			t.Fatalf("HelmOp %s, Cluster %s: %v", helmOp.Name, name, err)
		}
		if selects && cluster.GetLabels()[addonsv1.ShardLabel] == helmOp.Labels[addonsv1.ShardLabel] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (e *example) cluster(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	cluster, err := clusterview.ReadCluster(t.Context(), e.reader, e.clusters[name], "")
	if err != nil {
		t.Fatalf("Cluster %s: %v", name, err)
	}
	return cluster
}

// render returns what a HelmOp installs in a Cluster: the reference of the chart, the name and namespace of the
// release, and the values. If there are any, it also returns the changes after rendering and the dependencies. It uses
// the code of the controller.
func (e *example) render(t *testing.T, helmOp *addonsv1.HelmOp, name string) map[string]any {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("HelmOp %s for %s: %v", helmOp.Name, name, err)
		}
	}
	object := e.cluster(t, name)
	cluster, err := apiutil.TypedCluster(object)
	must(err)
	objects := clusterview.NewReader(e.reader, e.reader)
	result, _, err := render.New(references.NewReader(e.reader, e.reader), objects).Values(t.Context(), helmOp, object,
		cluster)
	must(err)
	variants, err := render.NewVariants(&helmOp.Spec)
	must(err)
	read, err := objects.Read(t.Context(), object, cluster)
	must(err)
	variant, err := variants.Of(object.GetLabels(), render.RunningVersion(read.Data.ControlPlane))
	must(err)
	ref, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&variant.Ref)
	must(err)
	rendered := map[string]any{
		"helmOp": helmOp.Name,
		"chart":  strings.TrimSuffix(helmOp.Spec.Source.URL+"/"+helmOp.Spec.Source.Chart, "/"), "ref": ref,
		"release": result.Name, "namespace": result.Namespace, "values": result.Values,
	}
	if len(result.PostRender) > 0 {
		rendered["postRender"] = result.PostRender
	}
	if len(helmOp.Spec.DependsOn) > 0 {
		var names []any
		for _, dependency := range helmOp.Spec.DependsOn {
			names = append(names, dependency.Name)
		}
		rendered["dependsOn"] = names
	}
	return rendered
}

// healthChecks returns the health checks of all HelmOps.
func (e *example) healthChecks() []health.Check {
	var checks []health.Check
	for _, helmOp := range e.helmOps {
		if helmOp.Spec.Health == nil {
			continue
		}
		for _, check := range helmOp.Spec.Health.Checks {
			checks = append(checks, health.Check{
				APIVersion: check.APIVersion, Kind: check.Kind,
				InProgress: check.InProgress, Failed: check.Failed, Current: check.Current,
			})
		}
	}
	return checks
}

// sampleClusters returns the objects of the files of testdata/clusters: in each, a Cluster, its control plane and its
// infrastructure, with the fields that these providers set.
func sampleClusters(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "clusters", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no sample Clusters: %v", err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		for _, document := range documents(t, file) {
			objects = append(objects, parse(t, file, document))
		}
	}
	return objects
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func documents(t *testing.T, file string) [][]byte {
	t.Helper()
	var all [][]byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(readFile(t, file))))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, document)
	}
}

func parse(t *testing.T, file string, document []byte) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(document, u); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return u
}
