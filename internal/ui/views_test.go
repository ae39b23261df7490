// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// rowsOf parses lines such as "a: ready|ready|failed": the states of the HelmOps h0, h1 and so on in Cluster a.
func rowsOf(text string) []fleetview.Row {
	var rows []fleetview.Row
	for _, line := range strings.Split(text, "\n") {
		cluster, states, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for i, state := range strings.Split(states, "|") {
			for _, known := range fleetview.States {
				if strings.EqualFold(string(known), state) {
					rows = append(rows, fleetview.Row{Namespace: "ns", HelmOp: fmt.Sprint("h", i), Cluster: cluster,
						State: known, Release: fmt.Sprintf("h%d-%s", i, cluster),
						Message: "in Cluster " + cluster})
				}
			}
		}
	}
	return rows
}

// String draws a matrix.
func (m *matrix) String() string {
	var b strings.Builder
	for _, c := range m.Columns {
		b.WriteString(keysText(c.HelmOps, false) + " | ")
	}
	for _, l := range m.Lines {
		fmt.Fprintf(&b, "\n%s:", keysText(l.Clusters, false))
		var states []string
		for _, cell := range l.Cells {
			if cell == nil {
				states = append(states, "-")
			} else {
				states = append(states, string(cell.State))
			}
		}
		b.WriteString(" " + strings.Join(states, "|"))
	}
	return b.String()
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rows   string
		folded bool
		want   string
	}{
		"empty": {},
		"unhealthy first, alike folded": {"a: ready|ready\nb: ready|failed\nc: ready|ready", true,
			"h0 | h1 | \nb: Ready|Failed\na, c: Ready|Ready"},
		"not folded": {"a: ready|ready\nb: ready|ready", false, "h0 | h1 | \na: Ready|Ready\nb: Ready|Ready"},
		"no release": {"a: ready|-\nb: ready|ready", true, "h0 | h1 | \na: Ready|-\nb: Ready|Ready"},
		"the unusual first": {"a: failed\nb: failed\nc: stalled\nd: stalled\ne: drifted", true,
			"h0 | \nc, d: Stalled\na, b: Failed\ne: Drifted"},
		"columns folded": {"a: ready|ready|ready|ready|ready|ready|failed\nb: ready|ready|ready|ready|ready|ready|ready",
			true, "h0, h1, h2 and 3 more | h6 | \na: Ready|Failed\nb: Ready|Ready"},
		"few columns": {"a: ready|ready|ready|ready|ready|ready", true,
			"h0 | h1 | h2 | h3 | h4 | h5 | \na: Ready|Ready|Ready|Ready|Ready|Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := newMatrix(rowsOf(tc.rows), tc.folded).String(); got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

// A line has the same ID before and after it is opened, and the order of the rows does not matter.
func TestLineIDs(t *testing.T) {
	t.Parallel()
	rows := rowsOf("a: ready\nb: ready\nc: failed")
	folded := newMatrix(rows, true)
	slices.Reverse(rows)
	opened := newMatrix(rows, false)
	for _, l := range opened.Lines {
		if !slices.ContainsFunc(folded.Lines, func(f line) bool {
			return f.ID == l.ID && slices.Contains(f.Clusters, l.Clusters[0])
		}) {
			t.Errorf("%v is in no line", l.Clusters)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]pages{
		"": {1, 3, 1, 50, 120}, "2": {2, 3, 51, 100, 120}, "3": {3, 3, 101, 120, 120}, "4": {3, 3, 101, 120, 120},
		"0": {1, 3, 1, 50, 120}, "x": {1, 3, 1, 50, 120},
	} {
		if got := pagesOf(query, 120); got != want {
			t.Errorf("%q: %+v, want %+v", query, got, want)
		}
	}
	if got := pagesOf("", 0); got.Count != 1 || got.First != 0 {
		t.Errorf("no lines: %+v", got)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	query, err := url.ParseQuery("helmop=a,b&state=unhealthy&cluster=&selector=x%3Dy&page=3&other=1")
	if err != nil {
		t.Fatal(err)
	}
	f := filtersOf(query)
	if f.Problem != "" || !f.IsOn() || !slices.Equal(f.filter.HelmOps, []string{"a", "b"}) ||
		!slices.Equal(f.filter.States, []string{"Stalled", "Failed", "Unreachable", "Drifted"}) ||
		len(f.filter.Clusters) != 0 || f.filter.Selector.String() != "x=y" {
		t.Errorf("%+v", f)
	}
	if got := f.With("state", "Ready"); got != "?helmop=a%2Cb&selector=x%3Dy&state=Ready" {
		t.Errorf("another state: %s", got)
	}
	if got := f.With("page", "4"); !strings.Contains(got, "page=4") || !strings.Contains(got, "state=unhealthy") {
		t.Errorf("another page: %s", got)
	}
	if f := filtersOf(url.Values{"selector": {"!!"}}); f.Problem == "" {
		t.Error("an invalid selector is no problem")
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	b := newBar(part{Name: "failed", Count: 1}, part{Name: "none"}, part{Name: "ready", Count: 4999})
	if b.Label != "1 failed, 4999 ready" || len(b.Parts) != 2 || b.Parts[0].Width < leastWidth*0.9 {
		t.Errorf("%+v", b)
	}
	if end := b.Parts[1].X + b.Parts[1].Width; end < 99.99 || end > 100.01 {
		t.Errorf("the bar ends at %v", end)
	}
	if empty := newBar(); len(empty.Parts) != 0 || empty.Label != "" {
		t.Errorf("%+v", empty)
	}
}

var testNow = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// releaseAt returns a release with a HelmOp revision that is Ready since some time before now; not Ready for 0.
func releaseAt(name string, revision int64, since time.Duration,
	conditions ...metav1.Condition,
) *addonsv1.HelmOpRelease {
	r := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	r.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: revision}
	r.Status.Conditions = conditions
	if since > 0 {
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: addonsv1.ReadyCondition,
			Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(testNow.Add(-since))})
	}
	return r
}

func TestWaves(t *testing.T) {
	t.Parallel()
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}}
	if wavesOf(helmOp, nil, nil, testNow) != nil {
		t.Error("waves without a rollout")
	}
	hour := int32(3600)
	helmOp.Spec.Rollout = &addonsv1.Rollout{MinReadySeconds: 60, Waves: []addonsv1.Wave{
		{Name: "canary", MinReadySeconds: &hour, Promotion: addonsv1.WavePromotionManual}, {Name: "rest"}}}
	helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: 7, Wave: "canary", Phase: addonsv1.RolloutPhaseProgressing}
	failed := metav1.Condition{Type: addonsv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "UpgradeFailed"}
	unreachable := metav1.Condition{Type: addonsv1.ClusterReachableCondition, Status: metav1.ConditionFalse,
		Reason: addonsv1.ClusterUnreachableReason}
	var rows []fleetview.Row
	releases := map[client.ObjectKey]*addonsv1.HelmOpRelease{}
	for wave, of := range map[string][]*addonsv1.HelmOpRelease{
		"canary": {releaseAt("done", 7, 2*time.Hour), releaseAt("soaks", 7, 10*time.Minute),
			releaseAt("soaks-longer", 7, 5*time.Minute), releaseAt("fails", 7, 0, failed)},
		"rest": {releaseAt("old", 6, time.Hour), releaseAt("works", 7, 0), releaseAt("dark", 7, 0, unreachable)},
	} {
		for _, r := range of {
			releases[client.ObjectKeyFromObject(r)] = r
			rows = append(rows, fleetview.Row{Namespace: "ns", HelmOp: "h", Wave: wave, Release: r.Name})
		}
	}
	rows = append(rows, fleetview.Row{Namespace: "ns", HelmOp: "h", Wave: "rest"})
	waves := wavesOf(helmOp, rows, releases, testNow)
	if len(waves) != 2 {
		t.Fatalf("%d waves", len(waves))
	}
	canary, rest := waves[0], waves[1]
	if canary.Bar.Label != "1 done, 2 soaking, 1 failed" || canary.State != "Current" || !canary.Manual ||
		canary.Soak != time.Hour || !canary.SoakEnds.Equal(testNow.Add(55*time.Minute)) {
		t.Errorf("%+v", canary)
	}
	if rest.Bar.Label != "1 updating, 1 unreachable, 2 not updated" || rest.State != "Not begun" || rest.Clusters != 4 ||
		!rest.SoakEnds.IsZero() || rest.Soak != time.Minute {
		t.Errorf("%+v", rest)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	helmOp := &addonsv1.HelmOp{}
	helmOp.Status.Rollout = &addonsv1.RolloutStatus{Failed: 2}
	helmOp.Status.Clusters = &addonsv1.ClusterCounts{Selected: 40}
	if budgetOf(helmOp) != nil {
		t.Error("a budget without spec.rollout")
	}
	percent := intstr.FromString("10%")
	helmOp.Spec.Rollout = &addonsv1.Rollout{MaxFailures: &percent}
	if b := budgetOf(helmOp); b.Max != 4 || b.Failed != 2 || b.Bar.Label != "2 failed, 2 left" ||
		!strings.Contains(b.Then, "pauses") {
		t.Errorf("%+v", b)
	}
	helmOp.Spec.Rollout = &addonsv1.Rollout{OnFailure: addonsv1.RolloutFailureActionRollback}
	if b := budgetOf(helmOp); b.Max != 1 || b.Bar.Label != "1 failed" || !strings.Contains(b.Then, "return") {
		t.Errorf("%+v", b)
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", UID: "1"}}
	helmOp.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{Timeout: metav1.Duration{Duration: time.Hour}}
	key := client.ObjectKeyFromObject(helmOp)
	helmOps := map[client.ObjectKey]*addonsv1.HelmOp{key: helmOp}
	release := releaseAt("r", 1, time.Hour)
	release.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(helmOp, addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}
	release.Spec.ClusterRef.Name = "c"
	release.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{Timeout: metav1.Duration{Duration: 10 * time.Minute}}
	releases := map[client.ObjectKey]*addonsv1.HelmOpRelease{client.ObjectKeyFromObject(release): release}
	holdOf := func(value string) map[string]string {
		return map[string]string{clusterlife.UpgradeHoldName(key): value}
	}
	since := testNow.Add(-time.Minute).Format(time.RFC3339)
	deleted := metav1.NewTime(testNow.Add(-2 * time.Minute))
	for name, tc := range map[string]struct {
		annotations map[string]string
		deletion    *metav1.Time
		want        []string
	}{
		"none":                {},
		"next upgrade":        {annotations: holdOf("v1.35.0")},
		"upgrade":             {annotations: holdOf("v1.36.0 since " + since), want: []string{"Upgrade to v1.36.0 by HelmOp h until 59m"}},
		"another program":     {annotations: map[string]string{clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/x": "1"}, want: []string{"Upgrades by annotation before-upgrade.hook.cluster.cluster.x-k8s.io/x until "}},
		"deletion":            {annotations: map[string]string{addonsv1.DeletionHoldAnnotation: since}, deletion: &deleted, want: []string{"Deletion by HelmOp h until 9m0s"}},
		"deletion, over":      {annotations: map[string]string{addonsv1.DeletionHoldAnnotation: apiutil.DeletionHoldOver}, deletion: &deleted},
		"deletion, not begun": {deletion: &deleted, want: []string{"Deletion by HelmOp h until "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c",
				Annotations: tc.annotations, DeletionTimestamp: tc.deletion}}
			var got []string
			for _, h := range holdsOf(cluster, helmOps, releases, testNow) {
				until := ""
				if !h.Until.IsZero() {
					until = strings.TrimSuffix(h.Until.Sub(testNow).String(), "0s")
					if !strings.HasSuffix(until, "m") {
						until = h.Until.Sub(testNow).String()
					}
				}
				got = append(got, h.What+" by "+h.Who+" until "+until)
			}
			if len(got) != len(tc.want) || len(got) > 0 && !strings.HasPrefix(tc.want[0], got[0]) &&
				!strings.HasPrefix(got[0], tc.want[0]) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
