// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/storage"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
)

// budget holds the number of requests of an action to the cluster, by verb and kind of the object. The kind "record" is
// an existing record of Helm. Records are Secrets, so a list of records is "LIST secrets", and a new record is "POST
// secrets".
type budget map[string]int

// nine are requests of one verb for each of the nine objects of the benchmark's chart.
func nine(verb string) budget {
	requests := budget{}
	for _, kind := range []string{"clusterrolebindings", "clusterroles", "configmaps", "daemonsets", "deployments",
		"poddisruptionbudgets", "secrets", "serviceaccounts", "services"} {
		requests[verb+" "+kind] = 1
	}
	return requests
}

func (b budget) and(more budget) budget {
	sum := maps.Clone(b)
	for request, count := range more {
		sum[request] += count
	}
	return sum
}

func (b budget) total() int {
	total := 0
	for _, count := range b {
		total += count
	}
	return total
}

// The budgets of requests. A budget has all requests of the engine to a cluster for one action on a release with nine
// objects. It includes the observation before the decision. The figures are in docs/measurements.md.
var (
	// The requests are: the observation, the search for cluster-scoped objects of other owners, the namespace, the
	// objects, and the record twice.
	installBudget = nine("POST").and(budget{
		"LIST secrets": 1, "GET clusterroles": 1, "GET clusterrolebindings": 1, "POST namespaces": 1, "POST secrets": 1,
		"PUT record": 1,
	})
	// The requests are the same without the namespace. In addition, each object is searched.
	secondInstallBudget = nine("POST").and(nine("GET")).and(budget{
		"LIST secrets": 1, "POST secrets": 1, "PUT record": 1,
	})
	// The requests are: the observation, the previous record with its manifest, the objects, the changed objects, the
	// new record twice, and the previous record once more. A Secret with stringData is always written.
	valuesBudget = nine("GET").and(budget{
		"LIST secrets": 1, "GET record": 1, "POST secrets": 1, "PUT record": 2, "PATCH poddisruptionbudgets": 1,
		"PATCH secrets": 1, "PATCH configmaps": 1, "PATCH daemonsets": 1, "PATCH deployments": 1,
	})
	// All objects have the version of the chart in a label.
	chartBudget = nine("GET").and(nine("PATCH")).and(budget{
		"LIST secrets": 1, "GET record": 1, "POST secrets": 1, "PUT record": 2,
	})
	// The requests are: the observation, the newest record and its mark, the history again, the objects, the three
	// records, and the search for parts of records.
	uninstallBudget = nine("DELETE").and(budget{
		"LIST secrets": 3, "GET record": 1, "PUT record": 1, "DELETE record": 3,
	})
	// Controllers write the status of three objects. The action reads these objects, because no watch has their
	// versions. There is one record.
	unwatchedUninstallBudget = nine("DELETE").and(budget{
		"LIST secrets": 3, "GET record": 1, "PUT record": 1, "DELETE record": 1, "GET daemonsets": 1, "GET deployments": 1,
		"GET poddisruptionbudgets": 1,
	})
)

// TestIntegrationBudgetOfRequests fails if the requests of an action are not exactly the requests in its budget.
func TestIntegrationBudgetOfRequests(t *testing.T) {
	b := newBench(t)
	run := b.newRun(benchChart(t, "1.0.0"), map[string]any{"cluster": "one"})
	// The first action of a connection discovers the kinds that the cluster serves.
	other := b.newRun(run.chart, run.values)
	other.desired.Name, other.desired.Namespace = "other", b.namespace+"-other"
	other.mustSettle(t)
	b.cutter.Take()

	step := func(name string, run *releaseRun, want budget) {
		t.Helper()
		decide := run.decide
		if want["DELETE record"] > 0 {
			decide = run.decideUninstall
		}
		decision, err := decide(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.act(t.Context(), decision); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := budget{}
		for _, request := range b.cutter.Take() {
			got[requestOf(request)]++
		}
		t.Logf("%s: %d requests", name, got.total())
		if !maps.Equal(got, want) {
			t.Errorf("%s sends %d requests instead of %d: %s", name, got.total(), want.total(), differences(got, want))
		}
	}
	step("installation", run, installBudget)
	run.values, run.desired.ValuesDigest = map[string]any{"cluster": "one", "logLevel": "debug"}, "v2"
	step("upgrade of values", run, valuesBudget)
	run.chart, run.desired.ArtifactDigest = benchChart(t, "1.1.0"), "a2"
	step("upgrade of the chart", run, chartBudget)

	second := b.newRun(run.chart, run.values)
	second.desired.Name = "second"
	step("second installation in a namespace", second, secondInstallBudget)
	b.watched(run, "deployments.apps", "daemonsets.apps", "poddisruptionbudgets.policy")
	step("uninstallation", run, uninstallBudget)
	step("uninstallation without watches", second, unwatchedUninstallBudget)
}

// requestOf returns the verb and the kind of a request "METHOD path".
func requestOf(request string) string {
	method, path, _ := strings.Cut(request, " ")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	// Paths begin with api/v1 or apis/group/version.
	prefix := 2
	if parts[0] == "apis" {
		prefix = 3
	}
	parts = parts[min(prefix, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	switch {
	case len(parts) == 0:
		return method + " " + path
	case len(parts) == 1 && method == http.MethodGet:
		return "LIST " + parts[0]
	case len(parts) == 2 && strings.HasPrefix(parts[1], storage.HelmStorageType+"."):
		return method + " record"
	}
	return method + " " + parts[0]
}

// watched passes the versions of objects to the engine, as a controller with watches does. The resources have the
// version v1. The chart has one object of each resource.
func (b *bench) watched(run *releaseRun, resources ...string) {
	b.t.Helper()
	versions := map[inventory.Ref]model.ObjectVersion{}
	for _, text := range resources {
		resource := schema.ParseGroupResource(text)
		object := b.get(fmt.Sprintf("/apis/%s/v1/namespaces/%s/%s/%s-demo", resource.Group, run.desired.Namespace,
			resource.Resource, run.desired.Name))
		kind := object.GroupVersionKind()
		ref := inventory.Ref{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: object.GetNamespace(),
			Name: object.GetName()}
		versions[ref] = model.ObjectVersion{UID: object.GetUID(), Number: inventory.ResourceVersionOf(object)}
	}
	b.client.Saw(run.target.Key, run.desired.Namespace, run.desired.Name, versions)
}

// differences describes the requests that are different in got and want.
func differences(got, want budget) string {
	var texts []string
	for _, request := range slices.Sorted(maps.Keys(got.and(want))) {
		if got[request] != want[request] {
			texts = append(texts, fmt.Sprintf("%s %d times, want %d", request, got[request], want[request]))
		}
	}
	return strings.Join(texts, "; ")
}

// benchChart returns the chart of nine objects that the benchmark installs.
func benchChart(t *testing.T, version string) *chart.Chart {
	t.Helper()
	large, err := charts.Large("demo", version, 1)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(large.Archive))
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
