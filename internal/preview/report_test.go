// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// TestContent checks that fields of the API server and the UID of a dry run are not compared.
func TestContent(t *testing.T) {
	t.Parallel()
	object := parsed(t, `{kind: Job, metadata: {name: j, uid: u-1, resourceVersion: "7", managedFields: [],
		labels: {controller-uid: u-1}},
		spec: {list: [u-1, other]}, status: {a: 1}}`)
	want := parsed(t, `{kind: Job, metadata: {name: j, labels: {controller-uid: <uid>}}, spec: {list: [<uid>, other]}}`)
	if got := content(object); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if content(nil) != nil || object["status"] == nil {
		t.Error("the object was changed")
	}
}

// TestOverlay checks that fields of the cluster stay where an update was refused.
func TestOverlay(t *testing.T) {
	t.Parallel()
	plan := model.Change{Kind: model.ChangeUpdate, Reason: model.ReasonImmutable, Ref: configMap("config"),
		Before: parsed(t, "{spec: {default: 1, a: 1, list: [1]}}"), After: parsed(t, "{spec: {a: 2, list: [2]}}")}
	change, err := changeOf(&plan, nil)
	want := []Operation{{Op: "replace", Path: "/spec/a", From: float64(1), To: float64(2)},
		{Op: "replace", Path: "/spec/list/0", From: float64(1), To: float64(2)}}
	if err != nil || !reflect.DeepEqual(change.Operations, want) || !change.Fails {
		t.Errorf("got %+v, %v", change, err)
	}
}

// TestOperations checks the JSON pointers of differences.
func TestOperations(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		from, to string
		want     []Operation
	}{
		"same":   {from: "{a: {b: [1]}}", to: "{a: {b: [1]}}"},
		"create": {to: "{a: 1}", want: []Operation{{Op: "add", To: map[string]any{"a": float64(1)}}}},
		"fields": {from: "{a/b: 1, c: 2, e: 5}", to: "{a/b: 3, d: 4, e: {f: 1}}", want: []Operation{
			{Op: "replace", Path: "/a~1b", From: float64(1), To: float64(3)}, {Op: "remove", Path: "/c", From: float64(2)},
			{Op: "add", Path: "/d", To: float64(4)},
			{Op: "replace", Path: "/e", From: float64(5), To: map[string]any{"f": float64(1)}}}},
		"lists": {from: "{a: [1, 2]}", to: "{a: [1, 3, 4]}", want: []Operation{
			{Op: "replace", Path: "/a/1", From: float64(2), To: float64(3)}, {Op: "add", Path: "/a/2", To: float64(4)}}},
		"types": {from: "{a: [1]}", to: "{a: {b: 1}}", want: []Operation{{Op: "replace", Path: "/a",
			From: []any{float64(1)}, To: map[string]any{"b": float64(1)}}}},
	} {
		got := operations(nil, nil, mapOrNil(parsed(t, tc.from)), mapOrNil(parsed(t, tc.to)))
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

func configMap(name string) inventory.Ref {
	return inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "apps", Name: name}
}

// planOf returns a plan with an update of a value, the name of a Cluster and a secret.
func planOf(t *testing.T, cluster, value, secret string) model.Plan {
	t.Helper()
	object := func(value string) map[string]any {
		return parsed(t, "{kind: ConfigMap, metadata: {name: config}, data: {cluster: "+cluster+", id: '"+
			fmt.Sprintf("%x", cluster)+"', value: '"+value+"', url: 'x://"+secret+"@y'}}")
	}
	return model.Plan{Action: model.ActionUpgrade, Unchanged: 2,
		Changes: []model.Change{{Ref: configMap("config"), Kind: model.ChangeUpdate, Before: object("1"),
			After: object(value)}},
		Hooks: []model.PlannedHook{{Ref: inventory.Ref{Kind: "Job", Name: "migrate"}, Event: "pre-upgrade"}}}
}

func resultOf(t *testing.T, cluster, value, secret string) Result {
	t.Helper()
	masker := NewDiffMasker([]byte("key"), nil, []any{secret}, nil)
	outcome, err := outcomeOf(planOf(t, cluster, value, secret), masker)
	if err != nil {
		t.Fatal(err)
	}
	return Result{Cluster: cluster, Release: "web." + cluster, Outcome: outcome}
}

// TestOutcome checks the diff of a change and the summary.
func TestOutcome(t *testing.T) {
	t.Parallel()
	outcome := resultOf(t, "prod-1", "2", "planted").Outcome
	const want = "--- live/ConfigMap apps/config\n+++ planned/ConfigMap apps/config\n@@ -2,7 +2,7 @@\n" +
		"   cluster: prod-1\n   id: 70726f642d31\n   url: x://[redacted]@y [digest a8e0a4b3]\n" +
		"-  value: \"1\"\n+  value: \"2\"\n kind: ConfigMap\n metadata:\n   name: config\n"
	if got := digestMark.ReplaceAllString(outcome.Changes[0].Diff, "[digest a8e0a4b3]"); got != want {
		t.Errorf("got %s", got)
	}
	if got := outcome.Summary(); got != "~1 ConfigMap, runs Job migrate (pre-upgrade)" {
		t.Errorf("got %q", got)
	}
	all := Outcome{State: StateDiffers, Changes: []Change{
		{Kind: "Service", Change: "Create"}, {Kind: "Service", Change: "Create"}, {Kind: "Secret", Change: "Delete"},
		{Kind: "Job", Change: "Recreate"}, {Kind: "Job", Change: "Update", Reason: "Immutable", Fails: true}}}
	if got := all.Summary(); got != "!1 Job (Immutable), +2 Service, -1 Secret, ±1 Job" {
		t.Errorf("got %q", got)
	}
	for want, outcome := range map[string]Outcome{"no changes": {State: StateSame},
		"broken off": {State: StateFailed, Message: "broken\noff"},
		"belongs":    {State: StateDiffers, Action: "Refuse", Message: "belongs"},
		"leaves":     {State: StateDiffers, Action: "Uninstall", Message: "leaves"},
		"stays":      {State: StateDiffers, Action: ActionOrphan, Message: "stays"},
		"first uninstalls a, +1 Service": {State: StateDiffers, Action: ActionReplace, Message: "first uninstalls a",
			Changes: []Change{{Kind: "Service", Change: "Create"}}}} {
		if got := outcome.Summary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestGroupResults checks that the names of Clusters and their secrets do not separate Clusters, and differences do.
func TestGroupResults(t *testing.T) {
	t.Parallel()
	failed := Result{Cluster: "prod-9", Outcome: Outcome{State: StateFailed, Message: "cannot reach prod-9"}}
	results := []Result{resultOf(t, "prod-1", "4", "planted-a"), resultOf(t, "prod-2", "2", "planted-b"),
		resultOf(t, "prod-3", "2", "planted-c"), resultOf(t, "prod-4", "3", "planted-d"), failed}
	groups, err := GroupResults(results)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, group := range groups {
		got = append(got, string(group.State)+" "+strings.Join(group.Clusters, ","))
	}
	want := []string{"Failed prod-9", "Differs prod-2,prod-3", "Differs prod-1", "Differs prod-4"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	alike := groups[1].Changes[0].Diff
	for _, text := range []string{"cluster: <cluster>", "id: 70726f642d32", "[secret 1]", `+  value: "2"`} {
		if !strings.Contains(alike, text) {
			t.Errorf("got %s", alike)
		}
	}
	if diff := groups[2].Changes[0].Diff; !strings.Contains(diff, "cluster: prod-1") {
		t.Errorf("a single Cluster keeps its names: %s", diff)
	}
	again, err := GroupResults([]Result{resultOf(t, "prod-7", "2", "planted-z")})
	if err != nil || again[0].Hash != groups[1].Hash {
		t.Errorf("the hash differs: %v", err)
	}
}

// TestGeneralize checks which names are replaced.
func TestGeneralize(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, cluster, release, want string }{
		{"a prod-1 b prod-10 prod-1.x", "prod-1", "", "a <cluster> b prod-10 prod-1.x"},
		{"web.prod-1 in prod-1", "prod-1", "web.prod-1", "<release> in <cluster>"},
		{"team/prod-1 and prod-1", "team/prod-1", "", "<cluster> and <cluster>"},
		{"v1 of v1", "v1", "", "v1 of v1"},
		{"[digest aa] [digest bb] [digest aa]", "", "", "[secret 1] [secret 2] [secret 1]"},
	} {
		if got := generalize(tc.text, tc.cluster, tc.release); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// TestApprovalDigest checks that the digest covers all releases that the manager includes, and no others.
func TestApprovalDigest(t *testing.T) {
	known := func(hash string, state State) Result {
		return Result{ApprovalHash: hash, Outcome: Outcome{State: state}}
	}
	one, two := known("one", StateDiffers), known("two", StateNotReady)
	pinned := Result{NotCovered: true, Outcome: Outcome{State: StatePinned}}
	both := approval.Digest([]string{"one", "two"})
	for name, tc := range map[string]struct {
		results []Result
		want    string
	}{
		"none":                   {nil, ""},
		"all":                    {[]Result{one, two}, both},
		"another order":          {[]Result{two, one}, both},
		"an unreachable Cluster": {[]Result{one, known("two", StateFailed)}, both},
		"a pinned Cluster":       {[]Result{one, pinned, two}, both},
		"only a pinned Cluster":  {[]Result{pinned}, ""},
		"unknown inputs":         {[]Result{one, known("", StateFailed)}, ""},
	} {
		if got := ApprovalDigest(tc.results); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
