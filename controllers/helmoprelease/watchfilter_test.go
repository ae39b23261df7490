// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

func TestIsWatched(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, filter string
		labels       map[string]string
		want         bool
	}{
		{name: "no filter", want: true},
		{name: "no filter, a label", labels: map[string]string{clusterv1.WatchLabel: "red"}, want: true},
		{name: "the filter's label", filter: "blue", labels: map[string]string{clusterv1.WatchLabel: "blue"}, want: true},
		{name: "another label", filter: "blue", labels: map[string]string{clusterv1.WatchLabel: "red"}},
		{name: "no label", filter: "blue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}
			if got := apiutil.IsWatched(helmOp, tc.filter); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestReleaseOfOtherManagerIsDropped checks that the watches of a release end if another manager serves the release.
func TestReleaseOfOtherManagerIsDropped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		isMoved             bool
	}{
		"another label": {labels: map[string]string{clusterv1.WatchLabel: "red"}},
		"no label":      {},
		"being moved": {
			labels:      map[string]string{clusterv1.WatchLabel: "blue"},
			annotations: map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""},
			isMoved:     true,
		},
	} {
		forgot, release := &forgetting{}, triedFor("it")
		release.Labels, release.Annotations = tc.labels, tc.annotations
		r := &Reconciler{
			client: controllertest.StoreOf(t, release), watcher: forgettingWatcher{forgetting: forgot},
			reads: recordreads.New(1, clusterlink.New(clusterlink.Options{})), images: preflight.New(nil, 1),
			watchFilter: "blue", slots: newActionSlots(1, 0, &async.Waker{}),
		}
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
		r.memories.Of(request.NamespacedName).Records.KeepFirst("key", model.Observation{})
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if isKept := r.memories.Known(request.NamespacedName) != nil; len(forgot.releases) != 1 || isKept {
			t.Errorf("%s: forgotten %v, the memory is kept: %t", name, forgot.releases, isKept)
		}
		if err := r.client.Get(t.Context(), request.NamespacedName, release); err != nil {
			t.Fatal(err)
		}
		isTold := conditions.GetReason(release, addonsv1.PausedCondition) == addonsv1.BeingMovedReason
		if why := conditions.GetMessage(release, addonsv1.PausedCondition); isTold != tc.isMoved ||
			tc.isMoved && !strings.Contains(why, "annotate helmopreleases.addons.cluster.x-k8s.io it ") {
			t.Errorf("%s: the message of Paused is %q", name, why)
		}
	}
}

func TestOfWatchFilter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		filter, before, after string
		want                  bool
	}{
		"no filter":                           {before: "red", after: "red", want: true},
		"it is watched":                       {filter: "blue", before: "blue", after: "blue", want: true},
		"it gets the label":                   {filter: "blue", after: "blue", want: true},
		"it gets another label":               {filter: "blue", before: "blue", after: "red", want: true},
		"it loses its label":                  {filter: "blue", before: "blue", want: true},
		"it is another manager's":             {filter: "blue", before: "red", after: "red"},
		"it changes between two other labels": {filter: "blue", before: "red", after: "green"},
	} {
		of := func(label string) client.Object {
			return &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.WatchLabel: label}}}
		}
		passes, is := watches.OfWatchFilter(tc.filter), apiutil.IsWatched(of(tc.after), tc.filter)
		if got := passes.Update(event.UpdateEvent{ObjectOld: of(tc.before), ObjectNew: of(tc.after)}); got != tc.want {
			t.Errorf("%s: update %t", name, got)
		}
		if passes.Create(event.CreateEvent{Object: of(tc.after)}) != is ||
			passes.Delete(event.DeleteEvent{Object: of(tc.after)}) != is {
			t.Errorf("%s: create or delete", name)
		}
	}
}
