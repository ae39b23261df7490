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
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/storage"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

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
	// The requests are: the observation, the namespace, the objects, and the record twice.
	installBudget = nine("POST").and(budget{
		"LIST secrets": 1, "POST namespaces": 1, "POST secrets": 1, "PUT record": 1,
	})
	// The records were assumed to be absent, so there is no observation.
	assumedBudget = nine("POST").and(budget{"POST namespaces": 1, "POST secrets": 1, "PUT record": 1})
	// The requests are the same without the namespace. In addition, each object in the namespace is searched.
	secondInstallBudget = nine("POST").and(budget{
		"LIST secrets": 1, "POST secrets": 1, "PUT record": 1, "GET configmaps": 1, "GET daemonsets": 1,
		"GET deployments": 1, "GET poddisruptionbudgets": 1, "GET secrets": 1, "GET serviceaccounts": 1, "GET services": 1,
	})
	// The requests are: the observation, the previous record with its manifest, the unchanged objects without a watch,
	// the changed objects, the new record twice, and the previous record once more. Helm always writes a Secret with
	// stringData and a PodDisruptionBudget, so their writes show whether they have changed. The Service is unchanged and
	// has a watch.
	valuesBudget = budget{
		"LIST secrets": 1, "GET record": 1, "POST secrets": 1, "PUT record": 2, "PATCH poddisruptionbudgets": 1,
		"PATCH secrets": 1, "PATCH configmaps": 1, "PATCH daemonsets": 1, "PATCH deployments": 1,
		"GET serviceaccounts": 1, "GET services": 1, "GET clusterroles": 1, "GET clusterrolebindings": 1,
	}
	// All objects have the version of the chart in a label, so no object must be read.
	chartBudget = nine("PATCH").and(budget{
		"LIST secrets": 1, "GET record": 1, "POST secrets": 1, "PUT record": 2,
	})
	// A new process has no versions of objects.
	restartedBudget = nine("GET").and(nine("PATCH")).and(budget{
		"LIST secrets": 1, "GET record": 1, "POST secrets": 1, "PUT record": 2,
	})
	// The requests are: the observation, the newest record and its mark, the history again, the objects, the old records
	// together, and the newest record.
	uninstallBudget = nine("DELETE").and(budget{
		"LIST secrets": 2, "GET record": 1, "PUT record": 1, "DELETE secrets": 1, "DELETE record": 1,
	})
	// Controllers write the status of three objects. The action reads these objects, because no watch has their
	// versions. There are two records.
	unwatchedUninstallBudget = nine("DELETE").and(budget{
		"LIST secrets": 2, "GET record": 1, "PUT record": 1, "DELETE record": 2, "GET daemonsets": 1, "GET deployments": 1,
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
	b.freezeCaches()
	b.cutter.Take()

	step := func(name string, run *releaseRun, want budget) {
		t.Helper()
		decide := run.decide
		switch {
		case want["DELETE record"] > 0:
			decide = run.decideUninstall
		case want["LIST secrets"] == 0:
			decide = run.decideAssumed
		}
		decision, err := decide(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		result, err := run.act(t.Context(), decision)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if result.Changes == nil && decision.Action != model.ActionUninstall {
			t.Errorf("the records after the %s are not known without a read", name)
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
	assumed := b.newRun(run.chart, run.values)
	assumed.desired.Namespace = b.namespace + "-assumed"
	step("installation of a release that is assumed to be new", assumed, assumedBudget)
	run.values, run.desired.ValuesDigest = map[string]any{"cluster": "one", "logLevel": "debug"}, "v2"
	watches := []string{"deployments.apps", "daemonsets.apps", "poddisruptionbudgets.policy", "services"}
	// Controllers write the status of three objects.
	b.setStatuses(run, 1)
	b.watched(run, watches...)
	step("upgrade of values", run, valuesBudget)
	run.chart, run.desired.ArtifactDigest = benchChart(t, "1.1.0"), "a2"
	b.setStatuses(run, 2)
	b.watched(run, watches...)
	step("upgrade of the chart", run, chartBudget)

	second := b.newRun(run.chart, run.values)
	second.desired.Name = "second"
	step("second installation in a namespace", second, secondInstallBudget)
	b.watched(run, watches...)
	// An uninstallation uses the known kinds, however old they are.
	b.ageKinds(2 * time.Minute)
	step("uninstallation", run, uninstallBudget)

	b.reconnect(-1)
	other.client, other.target, second.client, second.target = b.client, b.target, b.client, b.target
	other.desired.ValuesDigest = "v2"
	other.mustSettle(t)
	b.freezeCaches()
	b.cutter.Take()
	second.chart, second.desired.ArtifactDigest = benchChart(t, "1.2.0"), "a3"
	step("upgrade of the chart after a restart", second, restartedBudget)
	step("uninstallation without watches", second, unwatchedUninstallBudget)
}

// freezeCaches stops the clock of the caches of the connection. On a full machine, an action takes longer than they
// keep what they have read.
func (b *bench) freezeCaches() {
	now := time.Now()
	knownKindsOf(b.t, b.client, b.target).Now = func() time.Time { return now }
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
	var paths []string
	for _, text := range resources {
		paths = append(paths, b.pathOf(run, schema.ParseGroupResource(text)))
	}
	b.watchedAt(run, paths...)
}

// watchedAt does the same as watched for the objects at paths.
func (b *bench) watchedAt(run *releaseRun, paths ...string) {
	b.t.Helper()
	versions := map[inventory.Ref]model.ObjectVersion{}
	for _, path := range paths {
		object := b.get(path)
		if object == nil || inventory.DeletedWith(object) != run.desired.Namespace+"/"+run.desired.Name {
			continue
		}
		kind := object.GroupVersionKind()
		ref := inventory.Ref{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: object.GetNamespace(),
			Name: object.GetName()}
		generation, _ := inventory.NumberOf(object)
		versions[ref] = model.ObjectVersion{UID: object.GetUID(), Number: inventory.ResourceVersionOf(object),
			Generation: generation}
	}
	run.client.Saw(run.target.Key, run.desired.Namespace, run.desired.Name, versions)
}

// pathOf returns the path of the chart's object of a resource.
func (b *bench) pathOf(run *releaseRun, resource schema.GroupResource) string {
	root := "/api/v1"
	if resource.Group != "" {
		root = "/apis/" + resource.Group + "/v1"
	}
	return fmt.Sprintf("%s/namespaces/%s/%s/%s-demo", root, run.desired.Namespace, resource.Resource, run.desired.Name)
}

// setStatuses changes the status of objects, as controllers do. The controller of Deployments also sets an annotation.
func (b *bench) setStatuses(run *releaseRun, generation int) {
	b.t.Helper()
	for text, patch := range map[string]string{
		"deployments.apps": `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"%[1]d"}},` +
			`"status":{"observedGeneration":%[1]d}}`,
		"daemonsets.apps": `{"status":{"observedGeneration":%d}}`, "poddisruptionbudgets.policy": `{"status":{` +
			`"observedGeneration":%d}}`,
	} {
		path := b.pathOf(run, schema.ParseGroupResource(text)) + "/status"
		err := b.kube.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).
			Body([]byte(fmt.Sprintf(patch, generation))).Do(b.t.Context()).Error()
		if err != nil {
			b.t.Fatal(err)
		}
	}
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
