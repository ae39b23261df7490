// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
)

// TestChangedObjectsOutdateRecords checks what the watches must show so that a pass may use the records as the last
// action has left them.
func TestChangedObjectsOutdateRecords(t *testing.T) {
	t.Parallel()
	left := recordreads.LeftFor(&addonsv1.HelmOpRelease{}, map[inventory.Ref]model.Generation{
		controllertest.Deployment: {UID: "d", Number: 2},
	})
	seen := func(id types.UID, generation int64) objectwatch.State {
		return objectwatch.State{Known: true, Exists: true, UID: id, Generation: generation}
	}
	for name, tc := range map[string]struct {
		left     *recordreads.Left
		unsynced bool
		state    objectwatch.State
		want     bool
	}{
		"of a read":          {unsynced: true, want: true},
		"as left":            {left: left, state: seen("d", 2), want: true},
		"older":              {left: left, state: seen("d", 1), want: true},
		"not watched":        {left: left, state: objectwatch.State{Exists: true}, want: true},
		"changed":            {left: left, state: seen("d", 3)},
		"created again":      {left: left, state: seen("e", 1)},
		"deleted":            {left: left, state: objectwatch.State{Known: true}},
		"watches begin":      {left: left, state: objectwatch.State{Exists: true}, unsynced: true},
		"without generation": {left: recordreads.LeftFor(&addonsv1.HelmOpRelease{}, nil), want: true},
	} {
		snapshot := &objectwatch.Snapshot{Synced: !tc.unsynced,
			Objects: map[inventory.Ref]objectwatch.State{controllertest.Deployment: tc.state}}
		if got := isAsLeft(tc.left, snapshot); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if isAsLeft(left, nil) {
		t.Error("no watches show the objects")
	}
}

// TestPauseOutdatesRecords checks that a release is read after a pause: a user may have changed it by hand.
func TestPauseOutdatesRecords(t *testing.T) {
	t.Parallel()
	r, release := &Reconciler{}, &addonsv1.HelmOpRelease{}
	records := &r.memories.Of(types.NamespacedName{}).Records
	p := &releasePass{releaseScope: &releaseScope{release: release, helmOp: &addonsv1.HelmOp{}}}
	release.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
	for _, isUnread := range []bool{true, false} {
		if !isUnread {
			records.KeepFirst("key", model.Observation{})
		}
		if end, err := r.checkPause(t.Context(), p); end == nil || err != nil {
			t.Fatalf("%v, %v", end, err)
		}
		if records.IsUnread() != isUnread {
			t.Errorf("after a pause, the release counts as not read: %t", !isUnread)
		}
		if _, ok := records.Take("key", release); ok {
			t.Error("the records from before the pause are used")
		}
	}
}
