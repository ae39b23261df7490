// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got := Parse(`# HELP a Help.
# TYPE a gauge
a{x="1",y="a \"b\", c=\"d\""} 3
a{x="2",y=""} 3
# TYPE b counter
# TYPE h histogram
h_bucket{le="+Inf"} 1
h_count 1
`)
	want := Metrics{
		"a": {"x": {"1", "2"}, "y": {`a \"b\", c=\"d\"`, ""}}, "b": {}, "h": {}, "h_bucket": {"le": {"+Inf"}}, "h_count": {},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCheck checks that a missing metric, label or value is an error, and that nothing else is.
func TestCheck(t *testing.T) {
	t.Parallel()
	complete := func() Metrics {
		have := Metrics{}
		for line := range strings.Lines(selectors) {
			words := strings.Fields(line)
			if have[words[0]] == nil {
				have[words[0]] = map[string][]string{}
			}
			for _, word := range words[1:] {
				match := condition.FindStringSubmatch(word)
				have.Add(words[0], match[1], "")
				for value := range strings.SplitSeq(match[2], "|") {
					have.Add(words[0], match[1], value)
				}
			}
		}
		return have
	}
	if errs := Check(complete(), "condition", "phase"); len(errs) > 0 {
		t.Fatal(errors.Join(errs...))
	}
	const metric = "helmop_status_rollout_phase"
	for want, change := range map[string]func(Metrics){
		"uses the metric " + metric:            func(m Metrics) { delete(m, metric) },
		"uses the label helmop of " + metric:   func(m Metrics) { delete(m[metric], "helmop") },
		`uses phase="RolledBack" of ` + metric: func(m Metrics) { m[metric]["phase"] = []string{"Paused", "Complete"} },
	} {
		have := complete()
		change(have)
		if err := errors.Join(Check(have, "condition", "phase")...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
