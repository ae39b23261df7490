// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// condition parses "Ready=False/UpgradeFailed".
func condition(text string) metav1.Condition {
	name, rest, _ := strings.Cut(text, "=")
	status, reason, _ := strings.Cut(rest, "/")
	return metav1.Condition{Type: name, Status: metav1.ConditionStatus(status), Reason: reason, ObservedGeneration: 2}
}

func TestStateOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		conditions []string
		change     func(*addonsv1.HelmOpRelease)
		want       State
	}{
		"new":             {nil, nil, StateProgressing},
		"ready":           {[]string{"Ready=True/Ready"}, nil, StateReady},
		"unknown":         {[]string{"Ready=Unknown/Progressing"}, nil, StateProgressing},
		"updating":        {[]string{"Ready=False/Updating"}, nil, StateProgressing},
		"failed":          {[]string{"Ready=False/InstallFailed"}, nil, StateFailed},
		"not healthy":     {[]string{"Ready=False/HealthCheckFailed", "Healthy=False/HealthCheckFailed"}, nil, StateFailed},
		"stalled":         {[]string{"Ready=False/InstallFailed", "Stalled=True/RetriesExhausted"}, nil, StateStalled},
		"unreachable":     {[]string{"Ready=False/ClusterUnreachable", "ClusterReachable=False/ClusterUnreachable"}, nil, StateUnreachable},
		"refused":         {[]string{"Ready=False/KubeconfigRefused", "ClusterReachable=False/KubeconfigRefused"}, nil, StateFailed},
		"reachable":       {[]string{"Ready=True/Ready", "ClusterReachable=True/ClusterReachable"}, nil, StateReady},
		"not initialized": {[]string{"Ready=False/ControlPlaneNotInitialized"}, nil, StateWaiting},
		"dependencies":    {[]string{"Ready=False/WaitingForDependencies"}, nil, StateWaiting},
		"drifted":         {[]string{"Ready=True/Ready", "Drifted=True/DriftDetected"}, nil, StateDrifted},
		"not ready by drift": {[]string{"Ready=False/DriftContested", "Drifted=True/DriftContested"}, nil,
			StateDrifted},
		"failed and drifted": {[]string{"Ready=False/UpgradeFailed", "Drifted=True/DriftDetected"}, nil, StateFailed},
		"paused":             {[]string{"Ready=False/UpgradeFailed", "Paused=True/Paused"}, nil, StatePaused},
		"another spec": {[]string{"Ready=True/Ready"}, func(r *addonsv1.HelmOpRelease) { r.Generation = 3 },
			StateProgressing},
		"outdated": {[]string{"Ready=True/Ready"}, func(r *addonsv1.HelmOpRelease) { r.Spec.Rollout.Revision = 6 },
			StateOutdated},
		"no revision": {[]string{"Ready=True/Ready"}, func(r *addonsv1.HelmOpRelease) { r.Spec.Rollout = nil },
			StateReady},
		"deleting": {[]string{"Ready=False/UninstallFailed"}, func(r *addonsv1.HelmOpRelease) {
			r.DeletionTimestamp = &metav1.Time{Time: testNow}
		}, StateDeleting},
	} {
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 7}
		for _, text := range tc.conditions {
			release.Status.Conditions = append(release.Status.Conditions, condition(text))
		}
		if tc.change != nil {
			tc.change(release)
		}
		if got, _ := stateOf(release, 7); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	var rows []Row
	for i := range 994 {
		name := fmt.Sprintf("prod-%03d", i)
		rows = append(rows, Row{HelmOp: "calico", Cluster: name, Release: "calico-" + name + "-1a2b", State: StateFailed,
			Version: "1.0.0", HelmRevision: int64(2 + i%3), Since: ago(time.Duration(i+1) * time.Minute),
			Message: fmt.Sprintf("release calico-%s-1a2b in %s: failed in prod-1000", name, name)})
	}
	other := rows[0]
	other.Cluster, other.Version = "prod-z", "1.0.1"
	rows = append(rows, other)
	groups := fold(rows, false)
	if len(groups) != 2 || len(groups[0].Clusters) != 994 || len(groups[1].Clusters) != 1 {
		t.Fatalf("%d groups", len(groups))
	}
	g := &groups[0]
	for _, tc := range []struct{ got, want string }{
		{g.clustersOf(), "994 alike: prod-000, prod-001, prod-002, ..."},
		{g.Message, "release <release> in <cluster>: failed in prod-1000"},
		{g.since(testNow), "60s to 16h"},
		{g.helmRevision(), "2 to 4"},
		{groups[1].Message, other.Message},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
	if all := fold(rows, true); len(all) != len(rows) || all[1].Message != rows[1].Message {
		t.Errorf("%d groups without folding", len(all))
	}
}

func TestReplaceName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, name, want string }{
		{"prod-1 and prod-1 and prod-10 and a-prod-1 and prod-1.", "prod-1", "X and X and prod-10 and a-prod-1 and X."},
		{"prod-1/prod-1/prod-1", "prod-1", "X/X/X"},
		{"https://prod-1:6443, prod-1.example", "prod-1", "https://X:6443, prod-1.example"},
		{"at a time", "a", "at X time"},
		{"text", "", "text"},
		{"1.1", "1", "1.1"},
	} {
		if got := replaceName(tc.text, tc.name, "X"); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.text, got, tc.want)
		}
	}
}

// testWorld is a HelmOp with releases in the Clusters a, ns2/b and the management cluster, and no release in c and d.
func testWorld() *world {
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}}
	helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
	helmOp.Spec.Rollout = &addonsv1.Rollout{Waves: []addonsv1.Wave{{Name: "first",
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"stage": "one"}}}}}
	helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: 7}
	helmOp.Status.Failures = []addonsv1.ClusterFailure{{Cluster: "c", Reason: "TemplateFailed", Message: "no key"},
		{Cluster: "a", Reason: "TemplateFailed", Message: "no key in a"}}
	var releases []*addonsv1.HelmOpRelease
	for i, ref := range []addonsv1.ClusterReference{{Name: "a"}, {Name: "b", Namespace: "ns2"},
		apiutil.ClusterRefOf("ns", clusterlink.Management)} {
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("r", i),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(helmOp,
				addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}}}
		release.Spec.ClusterRef = ref
		release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 6}
		release.Status.Conditions = []metav1.Condition{condition("Ready=True/Ready")}
		releases = append(releases, release)
	}
	var clusters []*unstructured.Unstructured
	for _, name := range []string{"ns/a", "ns2/b", "ns/c", "ns/d"} {
		cluster := apiutil.NewCluster()
		namespace, name, _ := strings.Cut(name, "/")
		cluster.SetNamespace(namespace)
		cluster.SetName(name)
		cluster.SetLabels(map[string]string{"x": "y"})
		if name == "a" {
			cluster.SetLabels(map[string]string{"x": "y", "stage": "one"})
		}
		clusters = append(clusters, cluster)
	}
	return &world{helmOps: byKey([]*addonsv1.HelmOp{helmOp}), releases: byKey(releases), clusters: byKey(clusters)}
}

func TestRows(t *testing.T) {
	t.Parallel()
	w := testWorld()
	var got []string
	for _, row := range w.rows() {
		got = append(got, fmt.Sprintf("%s %s %s", row.Cluster, row.State, row.Reason))
	}
	want := []string{"a Failed TemplateFailed", "c Failed TemplateFailed", "d Waiting ControlPlaneNotInitialized",
		"management cluster Outdated ", "ns2/b Outdated "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	d := w.clusters[client.ObjectKey{Namespace: "ns", Name: "d"}]
	d.SetLabels(map[string]string{"x": "y", addonsv1.ShardLabel: "b"})
	if rows := w.rows(); len(rows) != 4 {
		t.Errorf("%d rows with a Cluster of another shard", len(rows))
	}
	w.clusters = nil
	if rows := w.rows(); len(rows) != 4 {
		t.Errorf("%d rows without the right to list Clusters", len(rows))
	}
}

// TestAllNamespaces compares the whole output with namespaces.
func TestAllNamespaces(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &status{base: newBase(Options{Program: "kubectl helmop", Now: func() time.Time { return testNow }}),
		allNamespaces: true}
	s.Streams.Out = &out
	if err := s.print(testWorld(), s.rowWriter()); err != nil {
		t.Fatal(err)
	}
	compare(t, "status-all-namespaces", out.String())
}

func TestFilter(t *testing.T) {
	t.Parallel()
	selector, err := labels.Parse("stage=one")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		filter filter
		want   []string
	}{
		"none":                   {filter{}, []string{"a", "c", "d", "management cluster", "ns2/b"}},
		"a HelmOp":               {filter{helmOps: []string{"other"}}, nil},
		"a Cluster":              {filter{clusters: []string{"a"}}, []string{"a"}},
		"with its namespace":     {filter{clusters: []string{"ns/a", "ns2/b"}}, []string{"a", "ns2/b"}},
		"of another namespace":   {filter{clusters: []string{"b"}}, nil},
		"the management cluster": {filter{clusters: []string{"management-cluster"}}, []string{"management cluster"}},
		"a state":                {filter{states: []string{"outdated"}}, []string{"management cluster", "ns2/b"}},
		"a wave":                 {filter{waves: []string{"first"}}, []string{"a"}},
		"no wave":                {filter{waves: []string{""}}, []string{"c", "d", "ns2/b"}},
		"labels":                 {filter{selector: selector}, []string{"a"}},
	} {
		w := testWorld()
		var got []string
		for _, row := range w.rows() {
			if tc.filter.matches(w, &row) {
				got = append(got, row.Cluster)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestIsUnhealthy checks when "status --exit-code" fails.
func TestIsUnhealthy(t *testing.T) {
	t.Parallel()
	helmOp := func(ready string, failed int32) Summary {
		return summaryOf(rolling(func(h *addonsv1.HelmOp) {
			h.Status.Conditions = []metav1.Condition{condition(ready)}
			h.Status.Clusters = &addonsv1.ClusterCounts{Failed: failed}
		}), program{})
	}
	for name, tc := range map[string]struct {
		summary Summary
		filter  filter
		state   State
		want    bool
	}{
		"ready":                    {helmOp("Ready=True/Ready", 0), filter{}, StateReady, false},
		"stalled":                  {helmOp("Ready=False/TemplateFailed", 0), filter{}, StateReady, true},
		"a failure":                {helmOp("Ready=False/ReleasesFailed", 1), filter{}, StateReady, true},
		"a failed row":             {helmOp("Ready=True/Ready", 0), filter{}, StateFailed, true},
		"waits for dependencies":   {helmOp("Ready=False/WaitingForDependencies", 0), filter{}, StateWaiting, false},
		"another shard":            {helmOp("Ready=False/OtherShard", 0), filter{}, StateWaiting, false},
		"not initialized":          {helmOp("Ready=False/ControlPlaneNotInitialized", 0), filter{}, StateWaiting, false},
		"waits for Clusters":       {helmOp("Ready=False/WaitingForClusters", 0), filter{}, StateWaiting, false},
		"a limit of the registry":  {helmOp("Ready=False/RegistryRateLimited", 0), filter{}, StateReady, false},
		"a failure somewhere else": {helmOp("Ready=False/ReleasesFailed", 1), filter{clusters: []string{"a"}}, StateReady, false},
		"a failure that is shown":  {helmOp("Ready=False/ReleasesFailed", 1), filter{clusters: []string{"a"}}, StateFailed, true},
	} {
		s := &status{filter: tc.filter}
		if got := s.isUnhealthy([]Summary{tc.summary}, []Row{{State: tc.state}}); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestStatusWatchUpdates changes the world and expects lines for what the filters choose.
func TestStatusWatchUpdates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		filter filter
		change func(*world)
		want   string
	}{
		"nothing": {filter{}, func(*world) {}, ""},
		"a HelmOp": {filter{}, func(w *world) {
			w.helmOps[client.ObjectKey{Namespace: "ns", Name: "h"}].Spec.Paused = true
		}, "h: not reconciled yet; HelmOp revision 7 Progressing: 0 up to date; resume the paused HelmOp:  resume h -n ns\n"},
		"a filtered HelmOp": {filter{clusters: []string{"x"}}, func(w *world) {
			w.helmOps[client.ObjectKey{Namespace: "ns", Name: "h"}].Spec.Paused = true
		}, ""},
		"a deleted HelmOp": {filter{states: []string{"Outdated"}}, func(w *world) { w.helmOps = nil },
			"h: deleted\nh: Cluster management cluster no longer matches the filters\nh: Cluster ns2/b no longer matches the filters\n"},
		"a deleted release": {filter{}, func(w *world) { delete(w.releases, client.ObjectKey{Namespace: "ns", Name: "r0"}) },
			"h: the release in Cluster a was deleted\n"},
		"a row": {filter{clusters: []string{"b", "ns2/b"}}, func(w *world) {
			w.releases[client.ObjectKey{Namespace: "ns", Name: "r1"}].Spec.Rollout.Revision = 7
		}, "h     ns2/b   Ready                     \n"},
		"the filters": {filter{states: []string{"Outdated"}}, func(w *world) {
			for _, release := range w.releases {
				release.Spec.Rollout.Revision = 7
			}
		}, "h: no Cluster matches the filters any more\nh: Cluster management cluster no longer matches the filters\n" +
			"h: Cluster ns2/b no longer matches the filters\n"},
	} {
		var out bytes.Buffer
		s := &status{base: newBase(Options{Now: func() time.Time { return testNow }}), filter: tc.filter}
		s.Streams.Out = &out
		w := testWorld()
		watcher := newStatusWatch(s, w, s.rowWriter())
		tc.change(w)
		if err := watcher.update(); err != nil || out.String() != tc.want {
			t.Errorf("%s: %v: got %q, want %q", name, err, out.String(), tc.want)
		}
		out.Reset()
		if err := watcher.update(); err != nil || out.String() != "" {
			t.Errorf("%s: %v: got %q again", name, err, out.String())
		}
	}
}

func TestCountVersions(t *testing.T) {
	t.Parallel()
	w := testWorld()
	var releases []*addonsv1.HelmOpRelease
	for _, release := range w.releases {
		releases = append(releases, release)
	}
	w.releases[client.ObjectKey{Namespace: "ns", Name: "r0"}].Status.Release =
		&addonsv1.ReleaseObservation{Chart: "c", Version: "1"}
	counts := countVersions(w.helmOps, releases, []string{"h"})
	if len(counts) != 2 || len(counts[0].Clusters) != 2 || counts[1].Version != "1" || counts[1].Desired {
		t.Errorf("%+v", counts)
	}
	if counts := countVersions(w.helmOps, releases, []string{"other"}); len(counts) != 0 {
		t.Errorf("%+v", counts)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", maxMessage) + ", end"
	for _, tc := range []struct {
		text string
		wide bool
		want string
	}{
		{"a\nb  c", false, "a b c"},
		{long, true, long},
		{long, false, strings.Repeat("ü", maxMessage) + "..."},
	} {
		if got := clip(tc.text, tc.wide); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestBelongsTo(t *testing.T) {
	t.Parallel()
	others := []string{"calico-extra", "cal"}
	for name, want := range map[string]bool{
		"calico-prod-1-aaaa": true, "calico-7": true, "calico-extra-prod-1-aaaa": false, "cal-prod-1": false,
	} {
		if got := belongsTo(name, "calico", others); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
