// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// A step happens at a time after the start. "go" begins a request with a name, and the breaker must admit it. "no"
	// begins a request that the breaker must refuse. All other steps end a request.
	type step struct {
		at   time.Duration
		do   string
		name string
	}
	silences := func(n int) []step {
		var out []step
		for range n {
			out = append(out, step{0, "go", "x"}, step{0, "silence", "x"})
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"passes at first", []step{{0, "go", "a"}, {0, "go", "b"}}},
		{"two failures are none", append(silences(2), step{0, "go", "a"})},
		{"three are a pause", append(silences(3), step{0, "no", ""}, step{7 * time.Second, "no", ""},
			step{10 * time.Second, "go", "a"})},
		{"an answer in between counts from the start", append(append(silences(2), step{0, "go", "a"}, step{0, "answer", "a"}),
			append(silences(2), step{0, "go", "b"})...)},
		{"what says nothing counts nothing", append(append(silences(2), step{0, "go", "a"}, step{0, "none", "a"}),
			step{0, "go", "b"}, step{0, "silence", "b"}, step{0, "no", ""})},
		{"one probe at a time", append(silences(3), step{11 * time.Second, "go", "probe"}, step{11 * time.Second, "no", ""},
			step{60 * time.Second, "no", ""})},
		{"a good probe frees all", append(silences(3), step{11 * time.Second, "go", "probe"},
			step{12 * time.Second, "answer", "probe"},
			step{12 * time.Second, "go", "a"}, step{12 * time.Second, "go", "b"})},
		{"a bad probe is another pause",
			append(silences(3), step{11 * time.Second, "go", "probe"}, step{20 * time.Second, "silence", "probe"},
				step{29 * time.Second, "no", ""}, step{30 * time.Second, "go", "next"})},
		{"a probe that was given up leaves its place",
			append(silences(3), step{11 * time.Second, "go", "probe"}, step{12 * time.Second, "none", "probe"},
				step{12 * time.Second, "go", "next"}, step{12 * time.Second, "no", ""})},
		{"those under way do not lengthen the pause",
			append([]step{{0, "go", "slow"}}, append(silences(3), step{9 * time.Second, "silence", "slow"},
				step{10 * time.Second, "go", "probe"})...)},
		{"those under way do not end the probe",
			append([]step{{0, "go", "slow"}}, append(silences(3), step{11 * time.Second, "go", "probe"},
				step{12 * time.Second, "silence", "slow"}, step{12 * time.Second, "no", ""})...)},
		{"one failure is enough where there is an alternative",
			append(silences(1), step{0, "no", "other"}, step{0, "go", "a"},
				step{10 * time.Second, "go", "other"})},
		{"an answer ends that too", append(silences(1), step{0, "go", "a"}, step{1 * time.Second, "answer", "a"},
			step{1 * time.Second, "go", "other"})},
		{"an answer to one under way frees all",
			append([]step{{0, "go", "slow"}}, append(silences(3), step{1 * time.Second, "answer", "slow"},
				step{1 * time.Second, "go", "a"})...)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b breaker
			probes := map[string]bool{}
			results := map[string]outcome{"none": outcomeNone, "answer": outcomeAnswer, "silence": outcomeNoAnswer}
			for i, s := range tc.steps {
				now := start.Add(s.at)
				_, refused := b.refuses(now, s.name == "other")
				switch s.do {
				case "go":
					if refused {
						t.Fatalf("step %d: refused", i)
					}
					probes[s.name] = b.begin()
				case "no":
					if !refused {
						t.Fatalf("step %d: not refused", i)
					}
				default:
					b.report(now, probes[s.name], results[s.do], 0.5)
				}
			}
		})
	}
}

func TestBreakerPauseIsSpread(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for spread, want := range map[float64]time.Duration{0: 8 * time.Second, 0.5: 10 * time.Second, 1: 12 * time.Second} {
		b := breaker{unanswered: breakerLimit - 1}
		b.report(now, b.begin(), outcomeNoAnswer, spread)
		if wait, refused := b.refuses(now, false); wait != want || !refused {
			t.Errorf("spread %g: refused %t for %s, want %s", spread, refused, wait, want)
		}
	}
}
