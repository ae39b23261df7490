// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
)

// countedReads is an engine that counts reads of records. There are no records.
type countedReads struct {
	Engine
	reads int
}

func (e *countedReads) Observe(context.Context, model.Target, string, string) (model.Observation, error) {
	e.reads++
	return model.Observation{}, nil
}

// waitBench is a release that is not installed yet. The rendering of its values fails, so its report shows that an
// action began.
type waitBench struct {
	*upgradeBench
	engine countedReads
}

func newWaitBench(t *testing.T) *waitBench {
	t.Helper()
	b := &waitBench{upgradeBench: newActBench(t, `a: {{ fail "rendered" }}`)}
	b.r.engine, b.r.reads = &b.engine, recordreads.New(1, clusterlink.New(clusterlink.Options{}))
	return b
}

// pass makes the part of a pass from the read of the records. It checks the number of reads so far.
func (b *waitBench) pass(what string, reads int) {
	b.Helper()
	act := func(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
		return end(b.r.act(ctx, p, p.decision))
	}
	_, err := run(b.Context(), b.newPass(), b.r.observeRecords, b.r.assess, act)
	b.r.slots.Settle(client.ObjectKeyFromObject(b.Release))
	if err != nil || b.engine.reads != reads {
		b.Errorf("%s: %d reads, want %d, %v", what, b.engine.reads, reads, err)
	}
}

// TestWaitForSlotNeedsNoSecondRead checks that a release that waited for a slot for a moment is not read again before
// its action.
func TestWaitForSlotNeedsNoSecondRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWaitBench(t)
		done := b.takeSlot()
		b.pass("no slot is free", 1)
		b.pass("no slot is free yet", 1)
		<-time.After(time.Minute)
		b.pass("the wait is long", 2)
		b.r.outdateRecords(b.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.Release)})
		b.pass("the records have changed", 3)
		b.Release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "now"}
		b.pass("a user requests a retry", 4)
		b.Release.Annotations = nil
		done()
		b.pass("a slot is free", 4)
		if !strings.Contains(b.Release.Status.LastError, "rendered") {
			t.Errorf("the action did not begin: %+v", b.Release.Status.Conditions)
		}
	})
}

// TestFetchNeedsNoSecondRead checks that a release that waited for its chart for a moment is not read again.
func TestFetchNeedsNoSecondRead(t *testing.T) {
	t.Parallel()
	b := newWaitBench(t)
	b.parse(false)
	b.pass("the chart is not parsed", 1)
	b.parse(true)
	b.pass("the chart is there", 1)
	if !strings.Contains(b.Release.Status.LastError, "rendered") {
		t.Errorf("the action did not begin: %+v", b.Release.Status.Conditions)
	}
}

// TestChangedObjectsOutdateRecords checks what the watches must show so that a pass may use the records as the last
// action has left them. Right after the action, the watches need not show anything.
func TestChangedObjectsOutdateRecords(t *testing.T) {
	t.Parallel()
	seen := func(id types.UID, generation int64) objectwatch.State {
		return objectwatch.State{Known: true, Exists: true, UID: id, Generation: generation}
	}
	objects := map[inventory.Ref]model.Generation{controllertest.Deployment: {UID: "d", Number: 2}}
	for name, tc := range map[string]struct {
		unsynced bool
		err      error
		state    objectwatch.State
		after    time.Duration
		want     bool
	}{
		"as left":       {state: seen("d", 2), want: true},
		"later":         {state: seen("d", 2), after: 50 * time.Second, want: true},
		"older":         {state: seen("d", 1), want: true},
		"not watched":   {state: objectwatch.State{Exists: true}, want: true},
		"changed":       {state: seen("d", 3)},
		"created again": {state: seen("e", 1)},
		"deleted":       {state: objectwatch.State{Known: true}},
		"watch has an error": {state: objectwatch.State{Known: true, Exists: true, UID: "d", Generation: 2,
			WatchError: &objectwatch.WatchError{Err: objectwatch.ErrForbidden}}},
		"watches begin":       {unsynced: true, after: 9 * time.Second, want: true},
		"changed at once":     {unsynced: true, state: seen("d", 3)},
		"watches begin again": {unsynced: true, after: 10 * time.Second},
		"watches fail":        {unsynced: true, err: errors.New("refused")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				left := recordreads.LeftFor(&addonsv1.HelmOpRelease{}, objects)
				<-time.After(tc.after)
				snapshot := &objectwatch.Snapshot{Synced: !tc.unsynced, Err: tc.err,
					Objects: map[inventory.Ref]objectwatch.State{controllertest.Deployment: tc.state}}
				if got := isAsLeft(left, snapshot); got != tc.want {
					t.Errorf("the objects are as left: %t", got)
				}
				if isAsLeft(left, nil) {
					t.Error("no watches show the objects")
				}
				left.Objects = nil
				if got := isAsLeft(left, &objectwatch.Snapshot{Synced: true}); !got {
					t.Error("without objects, nothing has changed")
				}
			})
		})
	}
	if !isAsLeft(nil, &objectwatch.Snapshot{}) {
		t.Error("a read needs no watches")
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
			records.KeepFirst("key", model.Observation{ReadAt: time.Now()})
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

// TestUnreachableClusterOutdatesRecords checks that a release is read after an outage of its cluster.
func TestUnreachableClusterOutdatesRecords(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]bool{1: true, 2: false} {
		r, release := &Reconciler{clusters: linkMadeMeanwhile{failures: failures}}, &addonsv1.HelmOpRelease{}
		records := &r.memories.Of(types.NamespacedName{}).Records
		records.KeepFirst("key", model.Observation{ReadAt: time.Now()})
		if _, ok := r.connect(t.Context(), release, controllertest.DeletingCluster("", false)); ok != want {
			t.Fatalf("%d failures: there is a connection: %t", failures, ok)
		}
		if _, ok := records.Take("key", release); ok != want {
			t.Errorf("%d failures: the records from before the outage are used: %t", failures, ok)
		}
	}
}

// TestConflictOutdatesFirstRead checks that the result of a first read is not kept if another release has changed the
// records while they were read. The read may be for another release, so that no pass has begun for this one.
func TestConflictOutdatesFirstRead(t *testing.T) {
	t.Parallel()
	release := controllertest.ReadyRelease("it", nil)
	key := client.ObjectKeyFromObject(release)
	for name, tc := range map[string]struct{ hasPass, isChanged bool }{
		"not changed":           {},
		"changed":               {hasPass: true, isChanged: true},
		"changed before a pass": {isChanged: true},
	} {
		r := &Reconciler{client: controllertest.StoreOf(t, release)}
		if tc.hasPass {
			r.memories.Of(key)
		}
		if tc.isChanged {
			r.outdateRecords(t.Context(), ctrl.Request{NamespacedName: key})
		}
		records := &r.memories.Of(key).Records
		records.KeepFirst("key", model.Observation{ReadAt: time.Now()})
		if _, ok := records.Take("key", release); ok == tc.isChanged {
			t.Errorf("%s: the result is used: %t", name, ok)
		}
	}
}

// TestConflictKeepsNothingOfDeletedRelease checks that the memory of a release that was just deleted is not created
// again.
func TestConflictKeepsNothingOfDeletedRelease(t *testing.T) {
	t.Parallel()
	r, key := &Reconciler{client: controllertest.StoreOf(t)}, client.ObjectKey{Namespace: "n", Name: "deleted"}
	r.outdateRecords(t.Context(), ctrl.Request{NamespacedName: key})
	if r.memories.Known(key) != nil {
		t.Error("the memory of a deleted release exists")
	}
}
