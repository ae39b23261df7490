// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"cmp"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// noRelease is a release whose content does not matter.
var noRelease = &addonsv1.HelmOpRelease{}

// TestFirstReadIsUsedInTwoPasses checks that one more pass uses the result of the first read, unless the result may be
// outdated.
func TestFirstReadIsUsedInTwoPasses(t *testing.T) {
	for name, tc := range map[string]struct {
		between func(*Kept)
		key     string
		// want is true for each of the two later passes that needs no read.
		want [2]bool
	}{
		"a moment later":         {between: func(*Kept) {}, want: [2]bool{true, false}},
		"too late":               {between: func(*Kept) { <-time.After(keptFor) }},
		"after an action":        {between: func(k *Kept) { k.Outdate() }},
		"of a re-created object": {between: func(k *Kept) { k.last.Store(nil) }, want: [2]bool{false, true}},
		"as another user":        {between: func(*Kept) {}, key: "well a, as x"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, records, key := newFixture(t), &Kept{}, "well a"
				pass := func() (remembered bool) {
					if _, remembered = records.Take(key, noRelease); !remembered {
						if _, done, err := f.observe("well", "a"); !done || err != nil {
							t.Fatal(done, err)
						}
						records.KeepFirst(key, model.Observation{ReadAt: time.Now()})
					}
					return remembered
				}
				if pass() {
					t.Error("it is remembered before it was read")
				}
				tc.between(records)
				key = cmp.Or(tc.key, key)
				if got := [2]bool{pass(), pass()}; got != tc.want {
					t.Errorf("remembered %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// TestWaitingPassKeepsItsRead checks that the pass after a wait for a slot uses the read of the pass before, once and
// not for long.
func TestWaitingPassKeepsItsRead(t *testing.T) {
	for name, tc := range map[string]struct {
		// outdate happens between the read and the wait, between after it.
		outdate, between func(*Kept)
		want             bool
	}{
		"a moment later":         {want: true},
		"too late":               {between: func(*Kept) { <-time.After(keptForAction - time.Second) }},
		"changed before":         {outdate: func(k *Kept) { k.Outdate() }},
		"changed after the wait": {between: func(k *Kept) { k.Outdate() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				records, at := &Kept{}, time.Now()
				mark := records.Outdate()
				<-time.After(time.Second)
				if tc.outdate != nil {
					tc.outdate(records)
				}
				records.KeepForAction(mark, "key", model.Observation{ReadAt: at})
				if tc.between != nil {
					tc.between(records)
				}
				result, ok := records.Take("key", noRelease)
				if ok != tc.want {
					t.Fatalf("known without a read: %t", ok)
				}
				if _, again := records.Take("key", noRelease); again {
					t.Error("a second pass uses the read")
				}
				if !ok {
					return
				}
				for _, action := range []model.Action{model.ActionNone, model.ActionInstall, model.ActionUpgrade} {
					if !result.Permits(decide.Decision{Action: action}, model.Policy{}) {
						t.Errorf("%s is not permitted", action)
					}
				}
				for _, decision := range []decide.Decision{
					{Action: model.ActionRollback}, {Action: model.ActionAdopt}, {Action: model.ActionUninstall},
					{Action: model.ActionInstall, Recovery: decide.RecoverReplace}, {Action: model.ActionWait},
					{Action: model.ActionUpgrade, State: model.StateForeign},
				} {
					if result.Permits(decision, model.Policy{}) {
						t.Errorf("%+v is permitted", decision)
					}
				}
			})
		})
	}
}

// TestAssumptionLeavesRecordsUnread checks that the records count as not read while a release waits after an
// assumption, and not after anything else.
func TestAssumptionLeavesRecordsUnread(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		steps func(*Kept)
		want  bool
	}{
		"not read":                {steps: func(*Kept) {}, want: true},
		"read":                    {steps: func(k *Kept) { k.KeepFirst("key", model.Observation{}) }},
		"outdated before a read":  {steps: func(k *Kept) { k.Outdate() }},
		"assumed, and waits":      {steps: func(k *Kept) { k.Unread(k.Outdate()) }, want: true},
		"outdated during a pass":  {steps: func(k *Kept) { mark := k.Outdate(); k.Outdate(); k.Unread(mark) }},
		"outdated during a wait":  {steps: func(k *Kept) { k.Unread(k.Outdate()); k.Outdate() }},
		"no mark after an action": {steps: func(k *Kept) { k.Outdate(); k.Unread(Mark{}) }},
		"read, and waits": {steps: func(k *Kept) {
			k.KeepForAction(k.Outdate(), "key", model.Observation{ReadAt: time.Now()})
		}},
	} {
		records := &Kept{}
		tc.steps(records)
		if got := records.IsUnread(); got != tc.want {
			t.Errorf("%s: unread: %t", name, got)
		}
	}
}

// TestActionLeavesItsRecords checks that all passes of the next minute know the records after an action, unless
// something else may have changed them. Then they are dropped.
func TestActionLeavesItsRecords(t *testing.T) {
	for name, tc := range map[string]struct {
		during, between func(*Kept)
		change          func(*addonsv1.HelmOpRelease)
		// wait is the time between the read before the action and the passes.
		wait time.Duration
		want bool
	}{
		"soon":                   {wait: time.Second, want: true},
		"too late":               {wait: keptFor},
		"changed by another one": {during: func(k *Kept) { k.Outdate() }},
		"changed later":          {between: func(k *Kept) { k.Outdate() }},
		"of another spec":        {change: func(r *addonsv1.HelmOpRelease) { r.Generation++ }},
		"a user annotates it":    {change: func(r *addonsv1.HelmOpRelease) { r.Annotations["a"] = "2" }},
		"a user labels it":       {change: func(r *addonsv1.HelmOpRelease) { r.Labels = map[string]string{"a": "1"} }},
		"its status is written":  {change: func(r *addonsv1.HelmOpRelease) { r.ResourceVersion = "2" }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "1"}}}
				records, at := &Kept{}, time.Now()
				mark := records.Outdate()
				if tc.during != nil {
					tc.during(records)
				}
				records.KeepLeft(mark, "key", model.Observation{ReadAt: at}, LeftFor(release, nil))
				if tc.between != nil {
					tc.between(records)
				}
				if tc.change != nil {
					tc.change(release)
				}
				<-time.After(tc.wait)
				for range 3 {
					result, ok := records.Take("key", release)
					if ok != tc.want {
						t.Fatalf("known without a read: %t", ok)
					}
					if ok && (!result.Permits(decide.Decision{Action: model.ActionNone}, model.Policy{}) ||
						result.Permits(decide.Decision{Action: model.ActionUpgrade}, model.Policy{})) {
						t.Error("an action is based on the records, or no pass may use them")
					}
				}
				<-time.After(keptFor)
				synctest.Wait()
				if records.last.Load().key != "" {
					t.Error("the records are kept")
				}
			})
		})
	}
}

// TestResultPermitsOnlyToDoNothing checks the decisions that may be based on a first read.
func TestResultPermitsOnlyToDoNothing(t *testing.T) {
	t.Parallel()
	for action, want := range map[model.Action]bool{
		model.ActionNone: true, model.ActionWait: false, model.ActionStall: false, model.ActionUpgrade: false,
		model.ActionRefuse: false,
	} {
		if got := (&Result{}).Permits(decide.Decision{Action: action}, model.Policy{}); got != want {
			t.Errorf("%s: %v, want %v", action, got, want)
		}
		if (&Result{}).Permits(decide.Decision{Action: action}, model.Policy{CorrectDrift: true}) {
			t.Errorf("%s, and drift is corrected by it", action)
		}
	}
}

// TestAssumptionPermitsOnlyInstallation checks the decisions that may be based on a list of all records of a Cluster.
func TestAssumptionPermitsOnlyInstallation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newClusterFixture(t)
		f.passes("a")
		assumed := f.NoRecords(named("c"), "b")
		if assumed == nil || !assumed.Assumed {
			t.Fatalf("got %+v", assumed)
		}
		for _, action := range []model.Action{model.ActionInstall, model.ActionNone, model.ActionWait, model.ActionStall,
			model.ActionRefuse, model.ActionAdopt} {
			got := assumed.Permits(decide.Decision{Action: action, State: model.StateAbsent}, model.Policy{})
			if got != (action == model.ActionInstall) {
				t.Errorf("%s is permitted: %t", action, got)
			}
		}
	})
}
