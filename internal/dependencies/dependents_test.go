// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

func TestNeededBy(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	depending := func(name string, change func(*addonsv1.HelmOpRelease), names ...string) *addonsv1.HelmOpRelease {
		return controllertest.ReadyRelease(name, func(r *addonsv1.HelmOpRelease) {
			r.Spec.DependsOn = controllertest.DependingOn(names...)
			if change != nil {
				change(r)
			}
		})
	}
	ending := func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now }
	paused := func(r *addonsv1.HelmOpRelease) { r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }
	absent := func(r *addonsv1.HelmOpRelease) {
		r.Status.Release, r.Status.State = nil, "Absent"
		report.SetNotReady(r, addonsv1.WaitingForDependenciesReason, "")
	}
	imageless := func(r *addonsv1.HelmOpRelease) {
		absent(r)
		report.SetNotReady(r, addonsv1.ImagesMissingReason, "")
	}
	tests := map[string]struct {
		of      *addonsv1.HelmOpRelease
		others  []*addonsv1.HelmOpRelease
		staying string
		want    string
	}{
		"no dependent": {of: depending("a", nil, "z"),
			others: []*addonsv1.HelmOpRelease{depending("z", nil), depending("b", nil, "z")}},
		"one dependent": {of: depending("a", nil), others: []*addonsv1.HelmOpRelease{depending("b", nil, "a")},
			want: "The uninstallation waits for the release of HelmOp b, which depends on this release: delete HelmOp b, " +
				"change its selector so that it does not select the Cluster, or remove the dependency"},
		"being deleted": {of: depending("a", nil), others: []*addonsv1.HelmOpRelease{depending("b", ending, "a")},
			want: "The uninstallation waits for the release of HelmOp b, which depends on this release and is being deleted"},
		"paused": {of: depending("a", nil), others: []*addonsv1.HelmOpRelease{depending("b", paused, "a")},
			want: "The uninstallation waits for the release of HelmOp b, which depends on this release and is paused: delete " +
				"HelmOp b, change its selector so that it does not select the Cluster, or remove the dependency"},
		"three dependents": {of: depending("a", nil),
			others: []*addonsv1.HelmOpRelease{depending("d", nil, "a"), depending("b", ending, "a"), depending("c", nil, "a")},
			want: "The uninstallation waits for the release of HelmOp b (and 2 more), which depends on this release and is " +
				"being deleted"},
		"not installed yet": {of: depending("a", nil), others: []*addonsv1.HelmOpRelease{depending("b", absent, "a")}},
		"not installed yet, an image is missing": {of: depending("a", nil),
			others: []*addonsv1.HelmOpRelease{depending("b", imageless, "a")}},
		"cycle": {of: depending("a", nil, "b"), others: []*addonsv1.HelmOpRelease{depending("b", nil, "a")}},
		"longer cycle": {of: depending("a", nil, "c"),
			others: []*addonsv1.HelmOpRelease{depending("b", nil, "a"), depending("c", nil, "b")}},
		"a cycle and a dependent outside of it": {of: depending("a", nil, "b"),
			others: []*addonsv1.HelmOpRelease{depending("b", nil, "a"), depending("c", ending, "a")},
			want:   "The uninstallation waits for the release of HelmOp c, which depends on this release and is being deleted"},
		"the dependent remains": {of: depending("a", nil), others: []*addonsv1.HelmOpRelease{depending("b", nil, "a")},
			staying: "b"},
		"one of two dependents remains": {of: depending("a", nil),
			others: []*addonsv1.HelmOpRelease{depending("b", nil, "a"), depending("c", ending, "a")}, staying: "b",
			want: "The uninstallation waits for the release of HelmOp c, which depends on this release and is being deleted"},
		"no HelmOp": {of: controllertest.ReadyRelease("a",
			func(r *addonsv1.HelmOpRelease) { r.OwnerReferences = nil }),
			others: []*addonsv1.HelmOpRelease{depending("b", nil, "a")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			siblings := map[string]*addonsv1.HelmOpRelease{}
			for _, other := range tc.others {
				siblings[apiutil.HelmOpOf(other)] = other
			}
			if got := neededBy(tc.of, siblings, map[string]bool{tc.staying: true}); got != tc.want {
				t.Errorf("neededBy = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestDependentsInClusterUnderDeletion checks that in a Cluster under deletion a release does not wait for a dependent
// that is not uninstalled. Otherwise the release would not be uninstalled before the hold of the deletion ends.
func TestDependentsInClusterUnderDeletion(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, tc := range map[string]struct {
		release func(*addonsv1.HelmOpRelease)
		helmOp  func(*addonsv1.HelmOp)
		isGone  bool
		want    bool
	}{
		"asked":     {},
		"not asked": {release: func(r *addonsv1.HelmOpRelease) { r.Spec.BeforeClusterDelete = nil }, want: true},
		"not asked, under deletion": {release: func(r *addonsv1.HelmOpRelease) {
			r.Spec.BeforeClusterDelete, r.DeletionTimestamp = nil, &now
		}},
		"paused": {release: func(r *addonsv1.HelmOpRelease) {
			r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, want: true},
		"served by another manager": {release: func(r *addonsv1.HelmOpRelease) { r.Labels[clusterv1.WatchLabel] = "other" },
			want: true},
		"before the timeout": {release: func(r *addonsv1.HelmOpRelease) {
			r.Spec.BeforeClusterDelete.Timeout.Duration = time.Hour
		}},
		"after the timeout": {release: func(r *addonsv1.HelmOpRelease) {
			r.Spec.BeforeClusterDelete.Timeout.Duration = time.Second
		}, want: true},
		"orphaned": {helmOp: func(h *addonsv1.HelmOp) { h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan },
			want: true},
		"the HelmOp is paused": {helmOp: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }, want: true},
		"the HelmOp is paused, under deletion": {release: func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now },
			helmOp: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }},
		"of another HelmOp":         {helmOp: func(h *addonsv1.HelmOp) { h.UID = "other" }, want: true},
		"the HelmOp does not exist": {isGone: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := controllertest.ReadyRelease("app", func(r *addonsv1.HelmOpRelease) {
				r.Spec.DependsOn, r.Spec.BeforeClusterDelete = controllertest.DependingOn("cni"), &addonsv1.BeforeClusterDelete{}
				r.Labels[clusterv1.WatchLabel] = "mine"
				if tc.release != nil {
					tc.release(r)
				}
			})
			objects := []client.Object{app}
			if !tc.isGone {
				objects = append(objects, controllertest.UpToDateHelmOp(t, "app", tc.helmOp))
			}
			gate := &Gate{Client: controllertest.StoreOf(t, objects...), Live: controllertest.StoreOf(t, objects...),
				WatchFilter: "mine", Now: time.Now}
			before := now.Add(-time.Minute).UTC().Format(time.RFC3339)
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one",
				Annotations: map[string]string{addonsv1.DeletionHoldAnnotation: before}}}
			cni := controllertest.ReadyRelease("cni", nil)
			if by, err := gate.NeededBy(t.Context(), cni, cluster); by == "" || err != nil {
				t.Errorf("the release does not wait while the Cluster stays, error %v", err)
			}
			cluster.DeletionTimestamp = &now
			if by, err := gate.NeededBy(t.Context(), cni, cluster); (by == "") != tc.want || err != nil {
				t.Errorf("the release waits: %q, %v; want %t", by, err, !tc.want)
			}
		})
	}
}
