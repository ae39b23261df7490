// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package brake

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)

func names(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("c%d", i))
	}
	return out
}

func TestLimit(t *testing.T) {
	t.Parallel()
	count, percent, zero, all := intstr.FromInt32(7), intstr.FromString("10%"), intstr.FromInt32(0),
		intstr.FromString("100%")
	for name, tc := range map[string]struct {
		value       *intstr.IntOrString
		total, want int
	}{
		"a small fleet":          {total: 2, want: 3},
		"a quarter":              {total: 40, want: 10},
		"a number":               {value: &count, total: 40, want: 7},
		"none":                   {value: &zero, total: 40, want: 0},
		"a percentage":           {value: &percent, total: 45, want: 4},
		"a percentage, at least": {value: &percent, total: 3, want: 1},
		"all":                    {value: &all, total: 45, want: 45},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Limit(tc.value, tc.total); got != tc.want {
				t.Errorf("limit %d, want %d", got, tc.want)
			}
		})
	}
}

func TestFleetLimit(t *testing.T) {
	t.Parallel()
	three, all := intstr.FromInt32(3), intstr.FromString("100%")
	for name, tc := range map[string]struct {
		value       *intstr.IntOrString
		total, want int
	}{
		"one release":         {total: 1, want: 3},
		"two":                 {total: 2, want: 1},
		"three":               {total: 3, want: 2},
		"four":                {total: 4, want: 3},
		"a quarter":           {total: 40, want: 10},
		"two, with a number":  {value: &three, total: 2, want: 3},
		"two, without limits": {value: &all, total: 2, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fleetLimit(tc.value, tc.total); got != tc.want {
				t.Errorf("limit %d, want %d", got, tc.want)
			}
		})
	}
}

// fleet has 40 objects. Some of them will be deleted. confirmed has the marks of the objects.
type fleet struct {
	state     State
	total     int
	pending   []string
	confirmed map[string]bool
	now       time.Time
	max       *intstr.IntOrString
}

func newFleet() *fleet { return &fleet{total: 40, now: start, confirmed: map[string]bool{}} }

// decide makes a decision with a confirmation. If deletions are allowed, it begins at most room of them.
func (f *fleet) decide(confirmation string, room int) Decision {
	maps.DeleteFunc(f.confirmed, func(name string, _ bool) bool { return !slices.Contains(f.pending, name) })
	d := Decide(Input{State: f.state, Pending: f.pending, Confirmed: len(f.confirmed), Total: f.total, Max: f.max,
		Confirmation: confirmation, Now: f.now})
	f.state = d.State
	if d.JustConfirmed {
		for _, name := range f.pending {
			f.confirmed[name] = true
		}
	}
	if !d.Held {
		n := min(room, len(f.pending))
		unconfirmed := 0
		for _, name := range f.pending[:n] {
			if !f.confirmed[name] {
				unconfirmed++
			}
		}
		f.state = f.state.Begin(unconfirmed, f.now)
		f.pending, f.total = f.pending[n:], f.total-n
	}
	return d
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const all = 1000
	for name, run := range map[string]func(*testing.T, *fleet){
		"few deletions begin": func(t *testing.T, f *fleet) {
			f.pending = names(0, 10)
			if d := f.decide("", all); d.Held || len(f.pending) > 0 {
				t.Errorf("10 of 40 wait: %+v", d)
			}
		},
		"many wait for a confirmation": func(t *testing.T, f *fleet) {
			f.pending = names(0, 11)
			d := f.decide("", all)
			if !d.Held || d.Lost != 11 || d.Total != 40 || d.Limit != 10 {
				t.Fatalf("11 of 40 do not wait: %+v", d)
			}
			f.now = f.now.Add(24 * time.Hour)
			if !f.decide("11-000000000000", all).Held {
				t.Error("another confirmation confirms")
			}
			if d := f.decide(d.Confirmation, 4); d.Held || !d.JustConfirmed {
				t.Errorf("the confirmation does not confirm: %+v", d)
			}
			for len(f.pending) > 0 {
				if f.decide(d.Confirmation, 4).Held {
					t.Fatalf("what is confirmed waits: %v", f.pending)
				}
			}
			if f.state.Recent != 0 {
				t.Errorf("what is confirmed counts as a loss: %+v", f.state)
			}
		},
		"one after the other they count together": func(t *testing.T, f *fleet) {
			for i := range 10 {
				f.pending = names(i, i+1)
				if f.decide("", all).Held {
					t.Fatalf("deletion %d waits", i)
				}
				f.now = f.now.Add(Window - time.Second)
			}
			f.pending = names(10, 11)
			if d := f.decide("", all); !d.Held || d.Lost != 11 || d.Total != 40 {
				t.Errorf("the eleventh does not wait: %+v", d)
			}
		},
		"what comes back is no loss": func(t *testing.T, f *fleet) {
			for i := range 30 {
				f.pending = names(0, 1)
				if f.decide("", all).Held {
					t.Fatalf("deletion %d waits", i)
				}
				f.state, f.total = f.state.Return(1), f.total+1
			}
		},
		"after a while they do not": func(t *testing.T, f *fleet) {
			f.pending = names(0, 10)
			f.decide("", all)
			f.now = f.now.Add(Window)
			f.pending = names(10, 17)
			if d := f.decide("", all); d.Held {
				t.Errorf("7 of 30 wait: %+v", d)
			}
		},
		"after a while they do not, also if the clock was ahead": func(t *testing.T, f *fleet) {
			f.state = State{Recent: 3, LastAt: f.now.Add(24 * time.Hour)}
			if f.decide("", all); f.state.Recent != 3 {
				t.Errorf("deletions of unknown time no longer count: %+v", f.state)
			}
			f.now = f.now.Add(Window + time.Minute)
			if f.decide("", all); f.state != (State{}) {
				t.Errorf("after the window, they still count: %+v", f.state)
			}
		},
		"what waits does not begin when the earlier deletions are long ago": func(t *testing.T, f *fleet) {
			f.pending = names(0, 6)
			f.decide("", all)
			f.pending = names(6, 12)
			if !f.decide("", all).Held {
				t.Fatal("12 of 40 do not wait")
			}
			for range 3 {
				f.now = f.now.Add(2 * Window)
				if d := f.decide("", all); !d.Held || d.Lost != 12 || d.Total != 40 {
					t.Fatalf("they begin by themselves: %+v", d)
				}
			}
			// After the end of the wait, the earlier deletions no longer count.
			f.pending = nil
			f.decide("", all)
			f.pending = names(12, 19)
			if d := f.decide("", all); d.Held {
				t.Errorf("7 of 34 wait: %+v", d)
			}
		},
		"what waits does not begin while labels are put back": func(t *testing.T, f *fleet) {
			f.pending = names(0, 11)
			f.decide("", all)
			for len(f.pending) > 0 {
				f.pending = f.pending[1:]
				if d := f.decide("", all); len(f.pending) > 0 && !d.Held {
					t.Fatalf("%d begin", len(f.pending))
				}
			}
			if f.state != (State{}) {
				t.Errorf("something still waits: %+v", f.state)
			}
		},
		"what waits does not begin because the fleet grows": func(t *testing.T, f *fleet) {
			f.pending = names(0, 11)
			f.decide("", all)
			f.total = 44
			if d := f.decide("", all); !d.Held || d.Limit != 10 || d.Total != 44 {
				t.Errorf("11 of 44 begin, of 40 before: %+v", d)
			}
			// The next wait has another start.
			f.pending = nil
			f.decide("", all)
			f.pending = names(0, 11)
			if d := f.decide("", all); d.Held {
				t.Errorf("11 of 44 wait: %+v", d)
			}
		},
		"what waits does not begin because the fleet shrinks": func(t *testing.T, f *fleet) {
			f.total, f.pending = 2, names(0, 2)
			f.decide("", all)
			f.total, f.pending = 1, names(1, 2)
			if d := f.decide("", all); !d.Held || d.Limit != 1 {
				t.Errorf("the last of 2 begins: %+v", d)
			}
		},
		"what waits does not begin because of an upgrade of HelmOp": func(t *testing.T, f *fleet) {
			f.state, f.pending = State{WaitingSince: start}, names(0, 9)
			for _, f.total = range []int{40, 44} {
				if d := f.decide("", all); !d.Held {
					t.Errorf("9 of %d begin: %+v", f.total, d)
				}
			}
		},
		"what waits does not begin because lost objects return": func(t *testing.T, f *fleet) {
			f.pending = names(0, 6)
			f.decide("", all)
			f.pending = names(6, 12)
			f.decide("", all)
			f.state, f.total = f.state.Return(2), f.total+2
			if d := f.decide("", all); !d.Held {
				t.Errorf("6 begin after 4 others: %+v", d)
			}
		},
		"a small fleet keeps its last release": func(t *testing.T, f *fleet) {
			f.total, f.pending = 2, names(0, 2)
			d := f.decide("", all)
			if !d.Held || d.Lost != 2 || d.Limit != 1 {
				t.Fatalf("both releases of 2 are deleted: %+v", d)
			}
			if d := f.decide(d.Confirmation, 1); d.Held || f.decide("", 1).Held {
				t.Errorf("the confirmed deletions wait: %+v", d)
			}
			// Without a confirmation, the second of two deletions waits until the first is no longer recent.
			f.state, f.total, f.pending = State{}, 2, names(0, 1)
			if d := f.decide("", all); d.Held {
				t.Errorf("1 of 2 waits: %+v", d)
			}
			f.pending = names(1, 2)
			if d := f.decide("", all); !d.Held || d.Total != 2 {
				t.Errorf("the second of 2 does not wait: %+v", d)
			}
			f.pending = nil
			f.decide("", all)
			f.now, f.pending = f.now.Add(Window), names(1, 2)
			if d := f.decide("", all); d.Held {
				t.Errorf("the last release waits: %+v", d)
			}
		},
		"a confirmation does not confirm more": func(t *testing.T, f *fleet) {
			f.pending = names(0, 11)
			before := f.decide("", all)
			f.pending = names(0, 12)
			if d := f.decide(before.Confirmation, all); !d.Held || d.Confirmation == before.Confirmation {
				t.Errorf("12 begin with a confirmation of 11: %+v", d)
			}
		},
		"more than a few that come after a confirmation wait": func(t *testing.T, f *fleet) {
			f.pending = names(0, 11)
			confirmation := f.decide("", all).Confirmation
			f.decide(confirmation, 1)
			f.pending = append(f.pending, names(20, 23)...)
			if f.decide(confirmation, 0).Held {
				t.Error("3 more wait")
			}
			f.pending = append(f.pending, names(23, 33)...)
			if d := f.decide(confirmation, 0); !d.Held || d.Lost != 23 {
				t.Errorf("13 more do not wait: %+v", d)
			}
		},
		"a confirmation does not confirm as many others": func(t *testing.T, f *fleet) {
			f.pending = names(0, 20)
			confirmation := f.decide("", all).Confirmation
			f.decide(confirmation, 2)
			// The confirmed objects are selected again, and the others are not selected any more.
			f.pending = names(20, 40)
			if d := f.decide(confirmation, all); !d.Held || d.Confirmation == confirmation {
				t.Errorf("20 others begin: %+v", d)
			}
		},
		"what is confirmed begins after others have returned": func(t *testing.T, f *fleet) {
			f.pending = names(0, 11)
			f.decide(f.decide("", all).Confirmation, 0)
			f.pending = names(0, 40)
			if d := f.decide("", all); !d.Held {
				t.Fatalf("29 others do not wait: %+v", d)
			}
			f.pending = names(0, 12)
			if d := f.decide("", all); !d.Held {
				t.Fatalf("the last of 29 others does not wait: %+v", d)
			}
			f.pending = names(0, 11)
			if d := f.decide("", all); d.Held {
				t.Errorf("what is confirmed waits: %+v", d)
			}
		},
		"a confirmation does not confirm the same loss a second time": func(t *testing.T, f *fleet) {
			f.pending = names(0, 11)
			confirmation := f.decide("", all).Confirmation
			f.pending = nil
			f.decide(confirmation, all)
			f.pending, f.now = names(0, 11), f.now.Add(time.Minute)
			if !f.decide(confirmation, all).Held {
				t.Error("an old confirmation confirms")
			}
		},
		"a larger limit ends the wait": func(t *testing.T, f *fleet) {
			f.pending = names(0, 11)
			f.decide("", all)
			f.pending = f.pending[:9]
			f.max = new(intstr.IntOrString)
			*f.max = intstr.FromInt32(10)
			if !f.decide("", all).Held {
				t.Error("9 begin with a limit of 10, though 11 waited")
			}
			*f.max = intstr.FromString("100%")
			if f.decide("", all).Held {
				t.Error("they wait without a limit")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newFleet())
		})
	}
}

func TestConfirmationIgnoresOrder(t *testing.T) {
	t.Parallel()
	if Confirmation(start, []string{"a", "b"}) != Confirmation(start, []string{"b", "a"}) {
		t.Error("the order makes a difference")
	}
	if Confirmation(start, []string{"a", "b"}) == Confirmation(start, []string{"a", "c"}) {
		t.Error("the names make none")
	}
}

// Objects disappear and return, and the manager restarts. Within the window, at most the limit is deleted without a
// confirmation.
func TestDecideNeverLosesMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	for seed := range int64(200) {
		rng := rand.New(rand.NewSource(seed))
		f := newFleet()
		gone := map[string]bool{}
		var begun []time.Time
		for range 200 {
			f.now = f.now.Add(time.Duration(rng.Intn(300)) * time.Second)
			f.pending = nil
			for i := range 40 {
				if name := fmt.Sprintf("c%d", i); !gone[name] && rng.Intn(6) == 0 {
					f.pending = append(f.pending, name)
				}
			}
			pending := f.pending
			f.decide("", 1+rng.Intn(5))
			for _, name := range pending[:len(pending)-len(f.pending)] {
				gone[name] = true
				begun = append(begun, f.now)
			}
			within := 0
			for _, at := range begun {
				if f.now.Sub(at) < Window {
					within++
				}
			}
			if limit := Limit(nil, f.total+within); within > limit {
				t.Fatalf("seed %d: %d of %d gone within the window, limit %d", seed, within, f.total+within, limit)
			}
		}
	}
}

// Objects are added and removed, and are under deletion for a while. While any of them waits, none begins without a
// confirmation or a larger limit.
func TestWaitingDeletionsNeverBeginByThemselves(t *testing.T) {
	t.Parallel()
	percent := intstr.FromString("20%")
	for seed := range int64(200) {
		rng := rand.New(rand.NewSource(seed))
		f := newFleet()
		if rng.Intn(2) == 0 {
			f.max = &percent
		}
		f.total = 1 + rng.Intn(40)
		for range 100 {
			f.now = f.now.Add(time.Duration(rng.Intn(900)) * time.Second)
			f.total = max(1, f.total+rng.Intn(9)-4)
			f.pending = names(0, rng.Intn(1+min(f.total, 12)))
			if rng.Intn(4) == 0 {
				f.state = f.state.Return(1 + rng.Intn(2))
			}
			waits, pending := !f.state.WaitingSince.IsZero(), len(f.pending)
			if d := f.decide("", 1+rng.Intn(5)); waits && pending > 0 && !d.Held {
				t.Fatalf("seed %d: %d of %d begin by themselves: %+v", seed, pending, d.Total, d)
			}
		}
	}
}
