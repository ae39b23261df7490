// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview/fleettest"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func TestStateOf(t *testing.T) {
	t.Parallel()
	deleted := func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &metav1.Time{Time: noon} }
	for name, tc := range map[string]struct {
		conditions []string
		change     func(*addonsv1.HelmOpRelease)
		want       State
	}{
		"new":         {nil, nil, StateProgressing},
		"ready":       {[]string{"Ready=True/Ready"}, nil, StateReady},
		"unknown":     {[]string{"Ready=Unknown/Progressing"}, nil, StateProgressing},
		"updating":    {[]string{"Ready=False/Updating"}, nil, StateProgressing},
		"failed":      {[]string{"Ready=False/InstallFailed"}, nil, StateFailed},
		"not healthy": {[]string{"Ready=False/HealthCheckFailed", "Healthy=False/HealthCheckFailed"}, nil, StateFailed},
		"stalled":     {[]string{"Ready=False/InstallFailed", "Stalled=True/RetriesExhausted"}, nil, StateStalled},
		"unreachable": {[]string{"Ready=False/ClusterUnreachable", "ClusterReachable=False/ClusterUnreachable"}, nil,
			StateUnreachable},
		"refused": {[]string{"Ready=False/KubeconfigRefused", "ClusterReachable=False/KubeconfigRefused"}, nil,
			StateFailed},
		"was unreachable, and waits for its deletion": {[]string{"Ready=False/Deleting",
			"ClusterReachable=False/ClusterUnreachable"}, nil, StateProgressing},
		"was unreachable, and cannot be observed": {[]string{"Ready=False/ObservationFailed",
			"ClusterReachable=False/ClusterUnreachable"}, nil, StateFailed},
		"reachable":       {[]string{"Ready=True/Ready", "ClusterReachable=True/ClusterReachable"}, nil, StateReady},
		"not initialized": {[]string{"Ready=False/ControlPlaneNotInitialized"}, nil, StateWaiting},
		"dependencies":    {[]string{"Ready=False/WaitingForDependencies"}, nil, StateWaiting},
		"drifted":         {[]string{"Ready=True/Ready", "Drifted=True/DriftDetected"}, nil, StateDrifted},
		"not ready by drift": {[]string{"Ready=False/DriftContested", "Drifted=True/DriftContested"}, nil,
			StateDrifted},
		"failed and drifted": {[]string{"Ready=False/UpgradeFailed", "Drifted=True/DriftDetected"}, nil, StateFailed},
		"paused":             {[]string{"Ready=False/UpgradeFailed", "Paused=True/Paused"}, nil, StatePaused},
		"another spec": {[]string{"Ready=True/Ready"}, func(r *addonsv1.HelmOpRelease) { r.Generation = 4 },
			StateProgressing},
		"outdated": {[]string{"Ready=True/Ready"}, func(r *addonsv1.HelmOpRelease) { r.Spec.Rollout.Revision = 6 },
			StateOutdated},
		"no revision": {[]string{"Ready=True/Ready"}, func(r *addonsv1.HelmOpRelease) { r.Spec.Rollout = nil },
			StateReady},
		"deleting":                  {[]string{"Ready=False/Deleting"}, deleted, StateDeleting},
		"deleting a new":            {nil, deleted, StateDeleting},
		"deleting, not uninstalled": {[]string{"Ready=False/UninstallFailed"}, deleted, StateFailed},
		"deleting, refused": {[]string{"Ready=False/UninstallFailed", "Stalled=True/UninstallFailed"}, deleted,
			StateStalled},
		"deleting, without its HelmOp": {[]string{"Ready=False/OwnerNotFound"}, deleted, StateFailed},
		"deleting, to be confirmed":    {[]string{"Ready=False/ConfirmationRequired"}, deleted, StateFailed},
		"deleting, waits for its next": {[]string{"Ready=False/ReleasePending"}, deleted, StateDeleting},
		"deleting, of another shard":   {[]string{"Ready=False/OtherShard"}, deleted, StateDeleting},
		"deleting, paused":             {[]string{"Ready=False/Deleting", "Paused=True/Paused"}, deleted, StatePaused},
		"deleting, with drift":         {[]string{"Ready=True/Ready", "Drifted=True/DriftDetected"}, deleted, StateDeleting},
		"deleting, with an old failure": {[]string{"Ready=False/UpgradeFailed"}, func(r *addonsv1.HelmOpRelease) {
			deleted(r)
			r.Generation = 4
		}, StateDeleting},
		"deleting, unreachable": {[]string{"Ready=False/ClusterUnreachable",
			"ClusterReachable=False/ClusterUnreachable"}, deleted, StateUnreachable},
	} {
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
		release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 7}
		for _, text := range tc.conditions {
			release.Status.Conditions = append(release.Status.Conditions, fleettest.Condition(text))
		}
		if tc.change != nil {
			tc.change(release)
		}
		if got, _ := StateOf(release, 7); got != tc.want {
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
			Version: "1.0.0", HelmRevision: int64(2 + i%3), Since: metav1.NewTime(noon.Add(-time.Duration(i+1) * time.Minute)),
			Message: fmt.Sprintf("release calico-%s-1a2b in %s: failed in prod-1000", name, name)})
	}
	other := rows[0]
	other.Cluster, other.Version = "prod-z", "1.0.1"
	rows = append(rows, other)
	groups := Fold(rows, false)
	if len(groups) != 2 || len(groups[0].Clusters) != 994 || len(groups[1].Clusters) != 1 {
		t.Fatalf("%d groups", len(groups))
	}
	g := &groups[0]
	for _, tc := range []struct{ got, want string }{
		{g.ClustersOf(), "994 alike: prod-000, prod-001, prod-002, ..."},
		{g.Message, "release <release> in <cluster>: failed in prod-1000"},
		{g.Since(noon), "60s to 16h"},
		{g.HelmRevision(), "2 to 4"},
		{groups[1].Message, other.Message},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
	if all := Fold(rows, true); len(all) != len(rows) || all[1].Message != rows[1].Message {
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

// testWorld has the objects of fleettest.
func testWorld() *World {
	helmOp, releases, clusters := fleettest.Objects()
	return NewWorld([]*addonsv1.HelmOp{helmOp}, releases, clusters)
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
	d := w.Clusters[client.ObjectKey{Namespace: "ns", Name: "d"}]
	d.SetLabels(map[string]string{"x": "y", addonsv1.ShardLabel: "b"})
	if rows := w.rows(); len(rows) != 4 {
		t.Errorf("%d rows with a Cluster of another shard", len(rows))
	}
	w.Clusters = nil
	if rows := w.rows(); len(rows) != 4 {
		t.Errorf("%d rows without the right to list Clusters", len(rows))
	}
	fleettest.Deleting(w.HelmOps[client.ObjectKey{Namespace: "ns", Name: "h"}])
	for _, row := range w.rows() {
		if row.State != StateOutdated {
			t.Errorf("got a row from before the deletion of the HelmOp: %+v", row)
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	selector, err := labels.Parse("stage=one")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		filter Filter
		want   []string
	}{
		"none":                   {Filter{}, []string{"a", "c", "d", "management cluster", "ns2/b"}},
		"a HelmOp":               {Filter{HelmOps: []string{"other"}}, nil},
		"a Cluster":              {Filter{Clusters: []string{"a"}}, []string{"a"}},
		"with its namespace":     {Filter{Clusters: []string{"ns/a", "ns2/b"}}, []string{"a", "ns2/b"}},
		"of another namespace":   {Filter{Clusters: []string{"b"}}, nil},
		"the management cluster": {Filter{Clusters: []string{"management-cluster"}}, []string{"management cluster"}},
		"a state":                {Filter{States: []string{"outdated"}}, []string{"management cluster", "ns2/b"}},
		"a wave":                 {Filter{Waves: []string{"first"}}, []string{"a"}},
		"no wave":                {Filter{Waves: []string{""}}, []string{"c", "d", "ns2/b"}},
		"labels":                 {Filter{Selector: selector}, []string{"a"}},
	} {
		w := testWorld()
		var got []string
		for _, row := range w.rows() {
			if tc.filter.Matches(w, &row) {
				got = append(got, row.Cluster)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestUnmatched(t *testing.T) {
	t.Parallel()
	selector := func(text string) labels.Selector {
		parsed, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for name, tc := range map[string]struct {
		filter Filter
		want   []string
	}{
		"no filter":        {Filter{}, nil},
		"another HelmOp":   {Filter{HelmOps: []string{"other"}}, nil},
		"a state":          {Filter{States: []string{"drifted"}}, nil},
		"a healthy wave":   {Filter{Waves: []string{"first"}, States: []string{"drifted"}}, nil},
		"one of two names": {Filter{Clusters: []string{"a", "typo"}}, []string{"the Cluster typo"}},
		"waves and labels": {Filter{Waves: []string{"first", "typo"}, Selector: selector("stage=typo")},
			[]string{`the wave "typo"`, "the labels stage=typo"}},
		"not together": {Filter{Clusters: []string{"c"}, Waves: []string{"first"}},
			[]string{"the Cluster c", `the wave "first"`}},
	} {
		if got := tc.filter.Unmatched(testWorld()); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestIsUnhealthy checks when "status --exit-code" fails.
func TestIsUnhealthy(t *testing.T) {
	t.Parallel()
	helmOp := func(ready string, failed int32) Summary {
		return SummaryOf(fleettest.Rolling(func(h *addonsv1.HelmOp) {
			h.Status.Conditions = []metav1.Condition{fleettest.Condition(ready)}
			h.Status.Clusters = &addonsv1.ClusterCounts{Failed: failed}
		}), Program{})
	}
	changed := func(also func(*addonsv1.HelmOp)) Summary {
		return SummaryOf(fleettest.Rolling(func(h *addonsv1.HelmOp) {
			h.Generation, h.Status.Conditions = 4, []metav1.Condition{fleettest.Condition("Ready=True/Ready")}
			if also != nil {
				also(h)
			}
		}), Program{})
	}
	for name, tc := range map[string]struct {
		summary Summary
		filter  Filter
		state   State
		want    bool
	}{
		"ready":                   {helmOp("Ready=True/Ready", 0), Filter{}, StateReady, false},
		"stalled":                 {helmOp("Ready=False/TemplateFailed", 0), Filter{}, StateReady, true},
		"a failure":               {helmOp("Ready=False/ReleasesFailed", 1), Filter{}, StateReady, true},
		"a failed row":            {helmOp("Ready=True/Ready", 0), Filter{}, StateFailed, true},
		"waits for dependencies":  {helmOp("Ready=False/WaitingForDependencies", 0), Filter{}, StateWaiting, false},
		"another shard":           {helmOp("Ready=False/OtherShard", 0), Filter{}, StateWaiting, false},
		"not initialized":         {helmOp("Ready=False/ControlPlaneNotInitialized", 0), Filter{}, StateWaiting, false},
		"waits for Clusters":      {helmOp("Ready=False/WaitingForClusters", 0), Filter{}, StateWaiting, false},
		"a limit of the registry": {helmOp("Ready=False/RegistryRateLimited", 0), Filter{}, StateReady, false},
		"an unknown change":       {changed(nil), Filter{}, StateReady, true},
		"a change during a pause": {changed(func(h *addonsv1.HelmOp) { h.Spec.Paused = true }), Filter{}, StateReady,
			false},
		"a change during a move": {changed(func(h *addonsv1.HelmOp) {
			h.Status.Conditions = append(h.Status.Conditions, fleettest.Condition("Paused=True/BeingMoved"))
		}), Filter{}, StateReady, false},
		"a failure somewhere else": {helmOp("Ready=False/ReleasesFailed", 1), Filter{Clusters: []string{"a"}}, StateReady,
			false},
		"a failure that is shown": {helmOp("Ready=False/ReleasesFailed", 1), Filter{Clusters: []string{"a"}}, StateFailed,
			true},
	} {
		if got := tc.filter.IsUnhealthy([]Summary{tc.summary}, []Row{{State: tc.state}}); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
