// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	// migrationsEnv permits to build tools that take minutes to build.
	migrationsEnv = "HELMOP_MIGRATIONS"

	// interruption is the first timeout of a migration that cannot end.
	interruption = 8 * time.Second
)

// beginMigration begins a test that has its own environment, if its tool may be built.
func beginMigration(t *testing.T) {
	t.Helper()
	if os.Getenv(migrationsEnv) == "" {
		t.Skipf("the build of the other tool takes minutes, and %s is not set; see `make test-migrations`", migrationsEnv)
	}
	begin(t)
}

// startTool starts the program of another tool while HelmOp runs. The program is stopped at the end of the test.
// startTool sets the work folder in the options.
func (s *scenario) startTool(name string, start func(context.Context, testbed.ToolOptions) (*process.Process, error),
	options testbed.ToolOptions,
) {
	s.Helper()
	root, err := binaries.RepositoryRoot()
	s.must(err)
	options.Root, options.Dir = root, filepath.Join(filepath.Dir(s.env.Management.KubeconfigFile()), name)
	tool, err := start(s.Context(), options)
	s.must(err)
	s.Cleanup(func() {
		s.Expect(tool.Unexpected()).To(gomega.Succeed())
		s.Expect(tool.Kill()).To(gomega.Succeed())
		if s.Failed() {
			lines, err := lastLines(tool.LogFile(), "", dumpedLines)
			s.Logf("the end of the log of %s (%v):\n%s", name, err, strings.Join(lines, "\n"))
		}
	})
}

// migrateInterrupted runs a migration that cannot end, and expects an output. On a full machine, the time may end in an
// earlier step, for example while no manager has reconciled the HelmOp. The command is then repeated with twice the
// time.
func (s *scenario) migrateInterrupted(want gomega.OmegaMatcher, args ...string) {
	s.Helper()
	for limit := interruption; ; limit *= 2 {
		output, code := s.helmopCommand(append(args, "--timeout", limit.String())...)
		s.Logf("exit code %d after %s: %s", code, limit, output)
		s.Expect(code).NotTo(gomega.BeZero())
		isExpected, err := want.Match(output)
		s.must(err)
		if isExpected || limit > time.Minute {
			s.Expect(output).To(want)
			return
		}
	}
}

// toolObject returns an object of another tool.
func toolObject(kind schema.GroupVersionKind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// toolObjects returns the objects of another tool in the namespace of the scenario.
func (s *scenario) toolObjects(kinds ...schema.GroupVersionKind) []unstructured.Unstructured {
	s.Helper()
	var all []unstructured.Unstructured
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		s.must(s.client.List(s.Context(), list, client.InNamespace(s.namespace)))
		all = append(all, list.Items...)
	}
	return all
}

// helmOps returns the HelmOps of the scenario.
func (s *scenario) helmOps() []addonsv1.HelmOp {
	s.Helper()
	list := &addonsv1.HelmOpList{}
	s.must(s.client.List(s.Context(), list, client.InNamespace(s.namespace)))
	return list.Items
}

// charted is what charts have installed in a Cluster.
type charted struct {
	// objects are the UIDs and resource versions of the objects, by kind and name.
	objects map[string]string
	// records are the contents of Helm's records, by name. The labels of a record do not count.
	records map[string]string
}

// chartedKinds are the kinds of the objects of the test charts, and of the namespaces that Helm creates.
var chartedKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "kitchen.test", Version: "v1", Kind: "Dish"},
}

// charted returns what charts have installed in Clusters.
func (s *scenario) charted(workloads []*workload) []charted {
	s.Helper()
	states := make([]charted, 0, len(workloads))
	for _, w := range workloads {
		state := charted{objects: map[string]string{}}
		var err error
		state.records, err = w.contents(s.Context())
		s.must(err)
		for _, kind := range chartedKinds {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			if err := w.List(s.Context(), list); meta.IsNoMatchError(err) {
				continue // No chart has installed the kind.
			} else if err != nil {
				s.Fatal(err)
			}
			for i := range list.Items {
				if o := &list.Items[i]; isCharted(kind.Kind, o) {
					state.objects[kind.Kind+" "+o.Namespace+"/"+o.Name] = string(o.UID) + " " + o.ResourceVersion
				}
			}
		}
		states = append(states, state)
	}
	return states
}

// isCharted reports whether an object comes from a chart. Helm does not mark hooks and the objects in a folder crds. In
// the Clusters, only charts have CustomResourceDefinitions.
func isCharted(kind string, object client.Object) bool {
	annotations := object.GetAnnotations()
	switch kind {
	case "CustomResourceDefinition":
		return true
	case "Namespace":
		return strings.HasSuffix(object.GetName(), "-system") && object.GetName() != metav1.NamespaceSystem
	default:
		return annotations[inventory.HelmReleaseName] != "" || annotations["helm.sh/hook"] != ""
	}
}
