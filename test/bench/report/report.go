// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report holds the results of the benchmark: figures, each with its baseline and its target. It measures
// nothing. Callers add the figures, and the report says which targets are missed.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
)

// Figure is one measured value.
type Figure struct {
	Scenario string `json:"scenario"`
	// Of is the measured tool. It is set in scenarios that measure several tools. Print writes their figures side by side.
	Of    string  `json:"of,omitempty"`
	Phase string  `json:"phase"`
	Name  string  `json:"name"`
	Unit  string  `json:"unit,omitempty"`
	Value float64 `json:"value"`
	// Baseline is the value to compare with, of the same run.
	Baseline *Baseline `json:"baseline,omitempty"`
	// Ratio is Value divided by the baseline's value.
	Ratio *float64 `json:"ratio,omitempty"`
	// Target is the limit that must not be exceeded.
	Target *Target `json:"target,omitempty"`
	// Missed is true if the target is exceeded.
	Missed bool `json:"missed,omitempty"`
}

// Baseline is the value to compare a figure with.
type Baseline struct {
	// Of names the origin of the value.
	Of    string  `json:"of"`
	Value float64 `json:"value"`
}

// Target is the largest permitted value of a figure, or of its ratio to the baseline.
type Target struct {
	OfRatio bool    `json:"ofRatio,omitempty"`
	Max     float64 `json:"max"`
}

// Option completes a figure.
type Option func(*Figure)

// Against sets the baseline of a figure.
func Against(whose string, value float64) Option {
	return func(f *Figure) {
		f.Baseline = &Baseline{Of: whose, Value: value}
		if value > 0 {
			ratio := f.Value / value
			f.Ratio = &ratio
		}
	}
}

// Of sets the measured tool.
func Of(tool string) Option {
	return func(f *Figure) { f.Of = tool }
}

// MaxRatio sets the target of the ratio. It must follow Against.
func MaxRatio(limit float64) Option {
	return func(f *Figure) {
		f.Target = &Target{OfRatio: true, Max: limit}
		f.Missed = f.Ratio == nil || *f.Ratio > limit
	}
}

// Max sets the target of the figure itself.
func Max(limit float64) Option {
	return func(f *Figure) {
		f.Target = &Target{Max: limit}
		f.Missed = f.Value > limit
	}
}

// Report holds all figures of a run. Several goroutines may add figures.
type Report struct {
	// About describes the run and the machine.
	About map[string]string `json:"about"`

	mu      sync.Mutex
	Figures []Figure `json:"figures"`
}

// Add adds a figure and returns it.
func (r *Report) Add(scenario, phase, name, unit string, value float64, options ...Option) Figure {
	f := Figure{Scenario: scenario, Phase: phase, Name: name, Unit: unit, Value: value}
	for _, option := range options {
		option(&f)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Figures = append(r.Figures, f)
	return f
}

// Missed names the missed targets.
func (r *Report) Missed() []string {
	var missed []string
	for _, f := range r.Figures {
		if f.Missed {
			missed = append(missed, fmt.Sprintf("%s, %s: %s is %s, target %s", f.Scenario, f.Phase, f.Name, f.measured(),
				f.target()))
		}
	}
	return missed
}

// measured returns the text of the value that the target limits.
func (f *Figure) measured() string {
	if f.Target != nil && f.Target.OfRatio {
		return f.ratio()
	}
	return f.value()
}

func (f *Figure) value() string {
	if f.Unit == "" {
		return number(f.Value)
	}
	return number(f.Value) + " " + f.Unit
}

func (f *Figure) ratio() string {
	if f.Ratio == nil {
		return ""
	}
	return strconv.FormatFloat(*f.Ratio, 'f', 2, 64)
}

func (f *Figure) target() string {
	switch {
	case f.Target == nil:
		return ""
	case f.Target.OfRatio:
		return "ratio ≤ " + number(f.Target.Max)
	default:
		return "≤ " + number(f.Target.Max)
	}
}

// number formats a number with its significant digits.
func number(v float64) string {
	digits := 0
	switch abs := math.Abs(v); {
	case v == math.Trunc(v):
	case abs < 10:
		digits = 2
	case abs < 1000:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Print writes a table for each scenario. The tables of scenarios with several tools are in Markdown.
func (r *Report) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	scenario, compared := "", []string{}
	for i := range r.Figures {
		f := &r.Figures[i]
		if f.Of != "" {
			if !slices.Contains(compared, f.Scenario) {
				compared = append(compared, f.Scenario)
			}
			continue
		}
		if f.Scenario != scenario {
			scenario = f.Scenario
			fmt.Fprintf(table, "\n%s\tfigure\tHelmOp\tbaseline\tratio\ttarget\t\n", scenario)
		}
		baseline, missed := "", ""
		if f.Baseline != nil {
			baseline = number(f.Baseline.Value) + " " + f.Baseline.Of
		}
		if f.Missed {
			missed = "MISSED"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Phase, f.Name, f.value(), baseline, f.ratio(), f.target(),
			missed)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, scenario := range compared {
		if _, err := fmt.Fprintf(out, "\n%s", r.Compare(scenario)); err != nil {
			return err
		}
	}
	return nil
}

// Compare returns a Markdown table of a scenario: a column for each tool, with the ratios in brackets, and a row for
// each figure.
func (r *Report) Compare(scenario string) string {
	type row struct{ phase, name string }
	var rows []row
	var tools []string
	cells := map[row]map[string]string{}
	for i := range r.Figures {
		f := &r.Figures[i]
		if f.Scenario != scenario || f.Of == "" {
			continue
		}
		key := row{f.Phase, f.Name}
		if cells[key] == nil {
			rows, cells[key] = append(rows, key), map[string]string{}
		}
		if !slices.Contains(tools, f.Of) {
			tools = append(tools, f.Of)
		}
		cells[key][f.Of] = f.value()
		if f.Ratio != nil {
			cells[key][f.Of] += " (" + f.ratio() + ")"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s |\n|%s\n", scenario, strings.Join(tools, " | "), strings.Repeat("---|", len(tools)+1))
	for _, key := range rows {
		fmt.Fprintf(&b, "| %s: %s |", key.phase, key.name)
		for _, tool := range tools {
			fmt.Fprintf(&b, " %s |", cmp.Or(cells[key][tool], "–"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Write writes the report as JSON.
func (r *Report) Write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}
