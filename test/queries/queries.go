// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queries checks that the metrics and labels that the alerts and the dashboard use exist. The file
// selectors.txt lists them. A test in hack/tools/prometheus, which has the parser of Prometheus, keeps it current.
package queries

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed selectors.txt
var selectors string

// Metrics are the metrics that a manager serves, by name. Each metric has its labels, and each label the values that
// are known of it.
type Metrics map[string]map[string][]string

// targetLabels are the labels that Prometheus adds to all metrics of a Pod.
var targetLabels = []string{"instance", "pod"}

// condition matches a condition on a label in selectors.txt, such as phase=~"Paused|RolledBack".
var condition = regexp.MustCompile(`^([a-z_]+)(?:(?:=~|!=|!~|=)"([^"]*)")?$`)

// Check returns an error for each metric and each label that a query uses and the manager does not have. closed are the
// labels whose known values are complete: a query must use no other value of them.
func Check(have Metrics, closed ...string) []error {
	var errs []error
	for line := range strings.Lines(selectors) {
		words := strings.Fields(line)
		name := words[0]
		family, known := have[name]
		if bucket, ok := strings.CutSuffix(name, "_bucket"); ok && !known {
			family, known = have[bucket]
		} else if count, ok := strings.CutSuffix(name, "_count"); ok && !known {
			family, known = have[count]
		}
		if !known {
			errs = append(errs, fmt.Errorf("a query uses the metric %s, which the manager does not have", name))
			continue
		}
		for _, word := range words[1:] {
			match := condition.FindStringSubmatch(word)
			if match == nil {
				errs = append(errs, fmt.Errorf("selectors.txt has %q, which is no condition on a label", word))
				continue
			}
			label := match[1]
			values, ok := family[label]
			if !ok && !slices.Contains(targetLabels, label) && (label != "le" || !strings.HasSuffix(name, "_bucket")) {
				errs = append(errs, fmt.Errorf("a query uses the label %s of %s, which the metric does not have", label, name))
			}
			if match[2] == "" || !slices.Contains(closed, label) {
				continue
			}
			for value := range strings.SplitSeq(match[2], "|") {
				if !slices.Contains(values, value) {
					errs = append(errs, fmt.Errorf("a query uses %s=%q of %s, which never has this value", label, value, name))
				}
			}
		}
	}
	return errs
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
	sampleLine = regexp.MustCompile(`(?m)^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// Parse reads the metrics of a manager in the text format of Prometheus.
func Parse(text string) Metrics {
	have := Metrics{}
	for _, match := range typeLine.FindAllStringSubmatch(text, -1) {
		have[match[1]] = map[string][]string{}
	}
	for _, match := range sampleLine.FindAllStringSubmatch(text, -1) {
		if have[match[1]] == nil {
			have[match[1]] = map[string][]string{} // the buckets and the count of a histogram
		}
		for _, pair := range labelPair.FindAllStringSubmatch(match[2], -1) {
			have.Add(match[1], pair[1], pair[2])
		}
	}
	return have
}

// Add adds a value of a label.
func (m Metrics) Add(metric, label, value string) {
	if m[metric] == nil {
		m[metric] = map[string][]string{}
	}
	if !slices.Contains(m[metric][label], value) {
		m[metric][label] = append(m[metric][label], value)
	}
}
