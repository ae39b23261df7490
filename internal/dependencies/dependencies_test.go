// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

func TestUnmet(t *testing.T) {
	t.Parallel()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one",
		Labels: map[string]string{"cni": "yes"}}}
	type (
		ofHelmOp  = func(*addonsv1.HelmOp)
		ofRelease = func(*addonsv1.HelmOpRelease)
	)
	now := metav1.Now()
	rollout := func(phase addonsv1.RolloutPhase, byWaves bool) ofHelmOp {
		return func(h *addonsv1.HelmOp) {
			h.Status.Rollout = &addonsv1.RolloutStatus{Revision: 8, Phase: phase}
			if byWaves {
				h.Spec.Rollout = &addonsv1.Rollout{Waves: []addonsv1.Wave{{Name: "canary"}}}
			}
		}
	}
	none := func(*addonsv1.HelmOpRelease) {}
	tests := map[string]struct {
		helmOp  ofHelmOp
		release ofRelease
		expr    string
		want    string
	}{
		"ready":      {release: none},
		"no release": {want: "HelmOp cni has no release in Cluster one yet"},
		"does not select": {helmOp: func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["x"] = "y" },
			want: "HelmOp cni does not select Cluster one"},
		"selector malformed": {helmOp: func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["x"] = "-" },
			want: "HelmOp cni does not select Cluster one"},
		"of another namespace": {helmOp: func(h *addonsv1.HelmOp) { h.Namespace = "m" },
			want: "HelmOp cni does not select Cluster one"},
		"other namespaces, too": {helmOp: func(h *addonsv1.HelmOp) {
			h.Namespace = "m"
			h.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{}
		}, want: "HelmOp cni has no release in Cluster one yet"},
		"unselected, still there": {helmOp: func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["x"] = "y" },
			release: none},
		"ending": {release: func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now },
			want: "the release of HelmOp cni is being deleted"},
		"not looked at": {release: func(r *addonsv1.HelmOpRelease) { r.Generation++ },
			want: "the release of HelmOp cni has not been checked yet"},
		"new": {release: func(r *addonsv1.HelmOpRelease) { r.Status = addonsv1.HelmOpReleaseStatus{} },
			want: "the release of HelmOp cni has not been checked yet"},
		"not ready": {release: func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, "InstallFailed", "no room") },
			want: "the release of HelmOp cni is not Ready: InstallFailed: No room"},
		"HelmOp changed": {helmOp: func(h *addonsv1.HelmOp) { h.Generation++ }, release: none,
			want: "HelmOp cni has changed and has not been reconciled yet"},
		"HelmOp never seen": {helmOp: func(h *addonsv1.HelmOp) { h.Status = addonsv1.HelmOpStatus{} }, release: none,
			want: "HelmOp cni has changed and has not been reconciled yet"},
		"source changed": {helmOp: func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "2" }, release: none,
			want: "HelmOp cni is not resolved yet"},
		"source never resolved": {helmOp: func(h *addonsv1.HelmOp) { h.Status.Artifact = nil }, release: none,
			want: "HelmOp cni is not resolved yet"},
		"another reference is being resolved": {helmOp: func(h *addonsv1.HelmOp) {
			report.SetCondition(h, addonsv1.ResolvedCondition, metav1.ConditionUnknown, addonsv1.ResolvingReason, "")
		}, release: none, want: "HelmOp cni is not resolved yet"},
		"the registry does not answer any more": {helmOp: func(h *addonsv1.HelmOp) {
			report.SetCondition(h, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryErrorReason, "")
		}, release: none},
		"not assigned in another Cluster": {helmOp: func(h *addonsv1.HelmOp) {
			report.SetCondition(h, addonsv1.RollingOutCondition, metav1.ConditionTrue, addonsv1.RollingOutReason, "")
		}, release: none},
		"HelmOp paused": {helmOp: func(h *addonsv1.HelmOp) { h.Generation++; h.Spec.Paused = true }, release: none},
		"another revision is assigned": {helmOp: rollout(addonsv1.RolloutPhaseProgressing, false), release: none,
			want: "HelmOp cni has not assigned HelmOp revision 8 to Cluster one yet"},
		"phase not known": {helmOp: rollout("", false), release: none,
			want: "HelmOp cni has not assigned HelmOp revision 8 to Cluster one yet"},
		"late for a rollout": {helmOp: rollout(addonsv1.RolloutPhaseComplete, true), release: none,
			want: "HelmOp cni has not assigned HelmOp revision 8 to Cluster one yet"},
		"rollout not there yet": {helmOp: rollout(addonsv1.RolloutPhaseProgressing, true), release: none},
		"rollout paused":        {helmOp: rollout(addonsv1.RolloutPhasePaused, false), release: none},
		"rollout given up":      {helmOp: rollout(addonsv1.RolloutPhaseRolledBack, false), release: none},
		"paused on its own": {helmOp: rollout(addonsv1.RolloutPhaseComplete, false),
			release: func(r *addonsv1.HelmOpRelease) {
				r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			}},
		"no revision known": {release: func(r *addonsv1.HelmOpRelease) { r.Spec.Rollout = nil }},
		"expression true": {release: none,
			expr: "release.status.release.version.startsWith('1.') && release.kind == 'HelmOpRelease'"},
		"expression false": {release: none, expr: "release.status.release.version.startsWith('2.')",
			want: "readyExpr for HelmOp cni is false"},
		"expression has not": {release: none, expr: "release.status.none == ''",
			want: `readyExpr for HelmOp cni cannot be evaluated: field "none" is missing`},
		"expression asked in addition": {release: func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, "Progressing", "soon")
		}, expr: "true",
			want: "the release of HelmOp cni is not Ready: Progressing: soon"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDependency(addonsv1.Dependency{Name: "cni", ReadyExpr: tc.expr},
				controllertest.UpToDateHelmOp(t, "cni", tc.helmOp))
			var release *addonsv1.HelmOpRelease
			if tc.release != nil {
				release = controllertest.ReadyRelease("cni", tc.release)
			}
			if got := d.Unmet(cluster, release); got != tc.want {
				t.Errorf("unmet = %q, want %q", got, tc.want)
			}
		})
	}
	d := newDependency(addonsv1.Dependency{Name: "cni"}, nil)
	if got, want := d.Unmet(cluster, nil), "HelmOp cni does not exist"; got != want {
		t.Errorf("unmet = %q, want %q", got, want)
	}
}

func TestInvalidDependency(t *testing.T) {
	t.Parallel()
	why := InvalidDependency([]addonsv1.Dependency{{Name: "a"}, {Name: "b", ReadyExpr: "true"},
		{Name: "c", ReadyExpr: "release."}})
	if !strings.HasPrefix(why, "spec.dependsOn: readyExpr for HelmOp c: line 1, column ") {
		t.Errorf("it is said: %q", why)
	}
	if why := InvalidDependency(controllertest.DependingOn("a", "b")); why != "" {
		t.Error(why)
	}
}

func TestCycles(t *testing.T) {
	t.Parallel()
	graph := DependencyGraph{
		"self": {"self"},
		"a":    {"b"}, "b": {"c", "leaf"}, "c": {"leaf", "a"},
		"short": {"a", "long", "back"}, "long": {"back"}, "back": {"short"},
		"outside": {"a"}, "leaf": nil, "lost": {"nobody"},
	}
	for name, want := range map[string]string{
		"self": "self>self", "a": "a>b>c>a", "b": "b>c>a>b", "c": "c>a>b>c", "short": "short>back>short",
		"long": "long>back>short>long", "outside": "", "leaf": "", "lost": "", "nobody": "",
	} {
		for range 3 {
			if got := strings.Join(graph.Path(name, name), ">"); got != want {
				t.Errorf("cycle of %s is %q, want %q", name, got, want)
			}
		}
	}
	if got := graph.Path("outside", "leaf"); !slices.Equal(got, []string{"outside", "a", "b", "leaf"}) {
		t.Errorf("path %v", got)
	}
	var names []string
	for name := range graph.dependents("leaf") {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"a", "b", "back", "c", "long", "outside", "short"}; !slices.Equal(names, want) {
		t.Errorf("dependents of leaf are %v, want %v", names, want)
	}
	if !graph.dependents("a")["a"] || graph.dependents("outside")["outside"] {
		t.Error("only a member of a cycle depends on itself")
	}
}

func TestCycleMessageIsBounded(t *testing.T) {
	t.Parallel()
	if got := CycleMessage([]string{"a", "b", "a"}); !strings.Contains(got, ": a → b → a;") {
		t.Error(got)
	}
	long := append(slices.Repeat([]string{"x"}, 500), "last")
	if got := CycleMessage(long); len(got) > 300 || !strings.Contains(got, "x → … → last;") {
		t.Error(got)
	}
}

// TestChangedDependencyIsReadAgain checks that a result is used only for the resourceVersion that was read.
func TestChangedDependencyIsReadAgain(t *testing.T) {
	t.Parallel()
	release := controllertest.ReadyRelease("remembered", func(r *addonsv1.HelmOpRelease) { r.UID = "remembered" })
	for version, want := range map[string]bool{"1": true, "2": false, "3": true} {
		release.ResourceVersion, release.Status.Release.Version = version, version
		for range 2 {
			if truth, err := isReadyBy("release.status.release.version != '2'", release); truth != want || err != nil {
				t.Errorf("version %s: %v, %v", version, truth, err)
			}
		}
	}
}
