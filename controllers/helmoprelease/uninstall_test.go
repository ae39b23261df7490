// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// uninstallingEngine is an engine that counts its reads and uninstallations.
type uninstallingEngine struct {
	Engine
	records []model.Record
	// reads and uninstallations count the calls.
	reads           atomic.Int64
	uninstallations int64
	// answer ends a read; nil if reads end at once. failure is the result of reads.
	answer  chan struct{}
	failure error
}

func (e *uninstallingEngine) Observe(context.Context, model.Target, string, string) (model.Observation, error) {
	e.reads.Add(1)
	if e.answer != nil {
		<-e.answer
	}
	return model.Observation{Records: e.records}, e.failure
}

func (e *uninstallingEngine) Act(context.Context, model.Target, decide.Decision, model.Desired, model.Options,
	*bundle.Chart, map[string]any,
) (helmclient.Result, error) {
	e.uninstallations++
	return helmclient.Result{StorageChanged: true}, nil
}

// uninstallBench is an installed release under deletion. The manager has one slot.
type uninstallBench struct {
	*controllertest.ReleaseBench
	r      *Reconciler
	engine uninstallingEngine
	links  *clusterlink.Links
}

func newUninstallBench(t *testing.T) *uninstallBench {
	t.Helper()
	b := &uninstallBench{ReleaseBench: controllertest.NewReleaseBench(t)}
	b.Release.UID, b.Release.Finalizers = "uid-1", []string{addonsv1.HelmOpReleaseFinalizer}
	b.Release.DeletionTimestamp = new(metav1.NewTime(controllertest.Noon))
	b.Release.Status.Release = &addonsv1.ReleaseObservation{Revision: 1}
	b.Release.Status.State = string(model.StateInSync)
	releasestatus.Reachable(b.Release)
	b.r = disconnectedReconciler(b.ReleaseBench)
	b.links = clusterlink.New(clusterlink.Options{})
	b.r.now, b.r.clusters, b.r.reads = time.Now, b.links, recordreads.New(1, b.links)
	desired, _ := releasespec.DesiredOf(b.Release)
	b.engine.records = []model.Record{{Revision: 1, LabelledRevision: 1, Status: model.StatusDeployed,
		Owner: desired.Owner, UID: "uid-1"}}
	b.r.engine = &b.engine
	return b
}

// takeSlot takes the slot for another release.
func (b *uninstallBench) takeSlot() (done func()) {
	b.Helper()
	done, ok := b.r.slots.Acquire(slots.Claim{Release: client.ObjectKey{Name: "other"}, Cluster: "team/two"})
	if !ok {
		b.Fatal("the slot is not free")
	}
	return done
}

// pass makes the last step of a pass. It checks the numbers of reads and of uninstallations so far, and whether the
// release waits for a slot or has an unused slot.
func (b *uninstallBench) pass(what string, reads, uninstallations int64, waits, hasSlot bool) {
	b.Helper()
	_, err := b.r.uninstall(b.Context(), &releaseScope{release: b.Release, before: b.Release.DeepCopy(),
		cluster: b.Cluster, helmOp: b.HelmOp}, model.Target{Key: "team/one"})
	key := client.ObjectKeyFromObject(b.Release)
	b.r.slots.Settle(key)
	if got := b.engine.reads.Load(); err != nil || got != reads || b.engine.uninstallations != uninstallations {
		b.Errorf("%s: %d reads, want %d, %d uninstallations, want %d, %v", what, got, reads,
			b.engine.uninstallations, uninstallations, err)
	}
	if b.r.slots.IsWaiting(key) != waits || b.r.slots.IsGranted(key) != hasSlot {
		b.Errorf("%s: the release waits for a slot: %t, want %t, has one: %t, want %t", what, b.r.slots.IsWaiting(key),
			waits, b.r.slots.IsGranted(key), hasSlot)
	}
}

// TestUninstallationWithoutSlotReadsNothing checks that an uninstallation that waits for a slot reads its records only
// once: when it has the slot.
func TestUninstallationWithoutSlotReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newUninstallBench(t)
		done := b.takeSlot()
		b.Release.Status.NextTryAt = metav1.NewTime(controllertest.Noon)
		b.pass("no slot is free", 0, 0, true, false)
		b.pass("no slot is free yet", 0, 0, true, false)
		if message := conditions.GetMessage(b.Release, addonsv1.ReadyCondition); !strings.Contains(message,
			"waits for a slot") || !b.Release.Status.NextTryAt.IsZero() {
			t.Errorf("Ready says %q, the next try is at %s", message, b.Release.Status.NextTryAt)
		}
		done()
		b.pass("the release has a slot", 1, 1, false, false)
		if len(b.Release.Finalizers) != 0 {
			t.Errorf("the HelmOpRelease has the finalizers %v", b.Release.Finalizers)
		}
		b.takeSlot()()
	})
}

// TestSlowReadKeepsSlotOfUninstallation checks that a slow read keeps the slot, and that the slot is free after a read
// without an uninstallation.
func TestSlowReadKeepsSlotOfUninstallation(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*uninstallingEngine)
		uninstallations int64
		isLeft          bool
	}{
		"uninstalled":          {change: func(*uninstallingEngine) {}, uninstallations: 1},
		"nothing to uninstall": {change: func(e *uninstallingEngine) { e.records = nil }},
		"not readable": {change: func(e *uninstallingEngine) {
			e.failure = &helmerr.Error{Kind: helmerr.ErrUnreachable, Message: "no answer"}
		}, isLeft: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newUninstallBench(t)
				b.engine.answer = make(chan struct{})
				tc.change(&b.engine)
				b.pass("the read is slow", 1, 0, false, true)
				b.pass("an event starts a pass during the read", 1, 0, false, true)
				if _, ok := b.r.slots.Acquire(slots.Claim{Release: client.ObjectKey{Name: "other"}}); ok {
					t.Error("another release got the slot")
				}
				b.r.slots.Settle(client.ObjectKey{Name: "other"})
				b.r.slots.Settle(client.ObjectKey{Name: "other"})
				close(b.engine.answer)
				synctest.Wait()
				b.pass("the read has ended", 1, tc.uninstallations, false, false)
				if isLeft := len(b.Release.Finalizers) > 0; isLeft != tc.isLeft {
					t.Errorf("the HelmOpRelease is left: %t", isLeft)
				}
				b.takeSlot()()
			})
		})
	}
}

// TestFailedUninstallationReadsWithoutSlot checks that a failed uninstallation reads the records without a slot until
// its next try is due: another program may have uninstalled the release meanwhile.
func TestFailedUninstallationReadsWithoutSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newUninstallBench(t)
		done := b.takeSlot()
		defer done()
		desired, options := releasespec.DesiredOf(b.Release)
		attempt, err := apiutil.DigestOf(desired, attempts.VerbUninstall, options.Uninstall)
		if err != nil {
			t.Fatal(err)
		}
		b.Release.Status.Failures, b.Release.Status.LastAttemptedDigest = 1, attempt
		b.Release.Status.LastAttemptedAt = metav1.NewTime(time.Now())
		b.pass("the next try is not due", 1, 0, false, false)
		<-time.After(time.Hour)
		b.pass("the next try is due", 1, 0, true, false)
		b.Release.Status.LastAttemptedAt = metav1.NewTime(time.Now())
		b.pass("the next try failed", 2, 0, false, false)
		b.Release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "now"}
		b.pass("a user requests a retry", 2, 0, true, false)
	})
}

// TestReadsWithSlot checks which uninstallations need a slot before they read the records.
func TestReadsWithSlot(t *testing.T) {
	t.Parallel()
	type input struct {
		scope    *releaseScope
		link     clusterlink.State
		siblings []addonsv1.HelmOpRelease
	}
	sibling := func(in *input, change func(*addonsv1.HelmOpRelease)) {
		other := in.scope.release.DeepCopy()
		other.Name, other.UID = "other", "uid-2"
		change(other)
		in.siblings = append(in.siblings, *other)
	}
	state := func(state model.State) func(*input) {
		return func(in *input) { in.scope.release.Status.State = string(state) }
	}
	for name, tc := range map[string]struct {
		change func(*input)
		want   bool
	}{
		"installed":               {change: func(*input) {}, want: true},
		"a failed uninstallation": {change: state(model.StateUninstalling), want: true},
		"not installed":           {change: func(in *input) { in.scope.release.Status.Release = nil }},
		"lost":                    {change: state(model.StateAbsent)},
		"of another owner":        {change: state(model.StateForeign)},
		"uninstalled":             {change: state(model.StateUninstalled)},
		"another action runs":     {change: state(model.StatePending)},
		"unresponsive":            {change: func(in *input) { in.link.Unresponsive = true }},
		"unreachable before": {change: func(in *input) {
			conditions.Delete(in.scope.release, addonsv1.ClusterReachableCondition)
		}},
		"the Cluster is under deletion": {change: func(in *input) {
			in.scope.cluster.DeletionTimestamp = new(metav1.NewTime(controllertest.Noon))
		}},
		"of two HelmOps": {change: func(in *input) { sibling(in, func(*addonsv1.HelmOpRelease) {}) }},
		"in the list of the cache": {change: func(in *input) {
			in.siblings = append(in.siblings, *in.scope.release)
		}, want: true},
		"beside another release": {change: func(in *input) {
			sibling(in, func(other *addonsv1.HelmOpRelease) { other.Spec.Release.Name = "other" })
		}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := controllertest.ReadyRelease("cni", nil)
			release.UID = "uid-1"
			releasestatus.Reachable(release)
			in := &input{scope: &releaseScope{release: release, cluster: &clusterv1.Cluster{}}}
			tc.change(in)
			if got := readsWithSlot(in.scope, in.link, in.siblings); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
