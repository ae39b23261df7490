// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestReadsJudgeClusters checks that a read without an answer makes a Cluster unresponsive until a read is answered.
// The results of probes must not change this.
func TestReadsJudgeClusters(t *testing.T) {
	const wait = time.Second
	for name, tc := range map[string]struct {
		happens func(*fleet)
		want    bool
	}{
		"nothing":          {happens: func(*fleet) {}},
		"no answer":        {happens: func(f *fleet) { f.links.ReadTimedOut(one, f.clock) }, want: true},
		"no answer, twice": {happens: func(f *fleet) { f.timeOut(wait); f.timeOut(wait) }, want: true},
		"an answer, later": {happens: func(f *fleet) { f.timeOut(wait); f.links.ReadAnswered(one) }},
		"an answer, meanwhile": {happens: func(f *fleet) {
			began := f.clock
			f.clock = f.clock.Add(wait)
			f.links.ReadAnswered(one)
			f.links.ReadTimedOut(one, began)
		}},
		"an answer, before": {happens: func(f *fleet) {
			f.links.ReadAnswered(one)
			f.clock = f.clock.Add(wait)
			f.links.ReadTimedOut(one, f.clock)
		}, want: true},
		"no answer, and a probe succeeds": {happens: func(f *fleet) { f.timeOut(wait); f.probe(nil) }, want: true},
		"a probe fails":                   {happens: func(f *fleet) { f.probe(errors.New("timeout")) }},
		"no answer, and a probe fails": {happens: func(f *fleet) { f.timeOut(wait); f.probe(errors.New("timeout")) },
			want: true},
		"it is not read any more": {happens: func(f *fleet) { f.timeOut(wait); f.links.ForgetReads(one) }},
		"it is deleted":           {happens: func(f *fleet) { f.timeOut(wait); f.links.drop(one) }},
		"another Cluster has its name": {happens: func(f *fleet) {
			f.timeOut(wait)
			f.writeOther("another")
			f.reconcile()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			before := testutil.ToFloat64(unresponsive)
			f := newFleet(t)
			f.provision(true, true)
			f.write("a")
			f.reconcile()
			tc.happens(f)
			got, counted := f.links.State(one).Unresponsive, testutil.ToFloat64(unresponsive) > before
			if got != tc.want || counted != tc.want {
				t.Errorf("unresponsive: %t, counted in the metric: %t", got, counted)
			}
			f.links.ForgetReads(one)
		})
	}
}

// timeOut makes a read that is not answered within the given time.
func (f *fleet) timeOut(after time.Duration) {
	began := f.clock
	f.clock = f.clock.Add(after)
	f.links.ReadTimedOut(one, began)
}

// probe makes a probe with the given result.
func (f *fleet) probe(result error) {
	f.clock, f.answer = f.clock.Add(probeInterval), result
	f.reconcile()
}

func (f *fleet) reconcile() {
	f.Helper()
	if _, err := f.links.Reconcile(f.Context(), ctrl.Request{NamespacedName: one}); err != nil {
		f.Fatal(err)
	}
}
