// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview/fleettest"
)

// TestStatusWatchUpdates changes the fleet. Each change that matches the filters must print a line.
func TestStatusWatchUpdates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		filter fleetview.Filter
		change func(*fleetview.World)
		want   string
	}{
		"nothing": {fleetview.Filter{}, func(*fleetview.World) {}, ""},
		"a HelmOp": {fleetview.Filter{}, func(w *fleetview.World) {
			w.HelmOps[client.ObjectKey{Namespace: "ns", Name: "h"}].Spec.Paused = true
		}, "h: not Ready (ReleasesFailed); HelmOp revision 7 Progressing: 0 up to date; resume the paused HelmOp:  resume " +
			"h -n ns\n"},
		"a filtered HelmOp": {fleetview.Filter{Clusters: []string{"x"}}, func(w *fleetview.World) {
			w.HelmOps[client.ObjectKey{Namespace: "ns", Name: "h"}].Spec.Paused = true
		}, ""},
		"a deleted HelmOp": {fleetview.Filter{States: []string{"Outdated"}}, func(w *fleetview.World) { w.HelmOps = nil },
			"h: deleted\nh: Cluster management cluster no longer matches the filters\nh: Cluster ns2/b no longer matches the " +
				"filters\n"},
		"a deleted release": {fleetview.Filter{},
			func(w *fleetview.World) { delete(w.Releases, client.ObjectKey{Namespace: "ns", Name: "r0"}) },
			"h: the release in Cluster a was deleted\n"},
		"a row": {fleetview.Filter{Clusters: []string{"b", "ns2/b"}}, func(w *fleetview.World) {
			w.Releases[client.ObjectKey{Namespace: "ns", Name: "r1"}].Spec.Rollout.Revision = 7
		}, "h     ns2/b   Ready                     \n"},
		"a field of a Cluster that the table does not show": {fleetview.Filter{}, func(w *fleetview.World) {
			for _, cluster := range w.Clusters {
				cluster.SetAnnotations(map[string]string{"a": "b"})
			}
		}, ""},
		"a Cluster": {fleetview.Filter{Clusters: []string{"d"}}, func(w *fleetview.World) {
			w.Clusters[client.ObjectKey{Namespace: "ns", Name: "d"}].Object["status"] = map[string]any{
				"initialization": map[string]any{"controlPlaneInitialized": true}}
		}, "h     d     Waiting                     The Cluster has no release yet\n"},
		"the filters": {fleetview.Filter{States: []string{"Outdated"}}, func(w *fleetview.World) {
			for _, release := range w.Releases {
				release.Spec.Rollout.Revision = 7
			}
		}, "h: no Cluster matches the filters any more\nh: Cluster management cluster no longer matches the filters\n" +
			"h: Cluster ns2/b no longer matches the filters\n"},
	} {
		var out bytes.Buffer
		s := &status{Base: kube.NewBase(kube.Options{Now: func() time.Time { return testNow }}), Filter: tc.filter}
		s.Streams.Out = &out
		w := newTestWorld()
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

func newTestWorld() *fleetview.World {
	helmOp, releases, clusters := fleettest.Objects()
	return fleetview.NewWorld([]*addonsv1.HelmOp{helmOp}, releases, clusters)
}

func TestCountVersions(t *testing.T) {
	t.Parallel()
	w := newTestWorld()
	var releases []*addonsv1.HelmOpRelease
	for _, release := range w.Releases {
		releases = append(releases, release)
	}
	w.Releases[client.ObjectKey{Namespace: "ns", Name: "r0"}].Status.Release =
		&addonsv1.ReleaseObservation{Chart: "c", Version: "1"}
	counts := fleetview.CountVersions(w.HelmOps, releases, []string{"h"})
	if len(counts) != 2 || len(counts[0].Clusters) != 2 || counts[1].Version != "1" || counts[1].Desired {
		t.Errorf("%+v", counts)
	}
	if counts := fleetview.CountVersions(w.HelmOps, releases, []string{"other"}); len(counts) != 0 {
		t.Errorf("%+v", counts)
	}
}

// TestAllNamespaces compares the whole output with namespaces.
func TestAllNamespaces(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &status{Base: kube.NewBase(kube.Options{Program: "kubectl helmop", Now: func() time.Time { return testNow }}),
		allNamespaces: true}
	s.Streams.Out = &out
	if err := s.print(newTestWorld(), s.rowWriter()); err != nil {
		t.Fatal(err)
	}
	compare(t, "status-all-namespaces", out.String())
}
