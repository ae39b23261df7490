/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// targets are the ratios, engine to plain loop, that must not be exceeded.
var targets = map[string]struct{ cpu, requests float64 }{
	"install": {0.5, 0.8},
	"upgrade": {0.5, 0.8},
}

// report is what the benchmark found out.
type report struct {
	Clusters int           `json:"clusters"`
	Releases int           `json:"releasesPerCluster"`
	Workers  int           `json:"workers"`
	Rounds   int           `json:"rounds"`
	Archive  int           `json:"chartArchiveBytes"`
	Phases   []phaseReport `json:"phases"`
}

// phaseReport holds the costs of one phase, all rounds together.
type phaseReport struct {
	Phase         string  `json:"phase"`
	Plain         cost    `json:"plain"`
	Engine        cost    `json:"engine"`
	CPURatio      float64 `json:"cpuRatio"`
	RequestsRatio float64 `json:"requestsRatio"`
}

func (r *report) finish() {
	for i := range r.Phases {
		phase := &r.Phases[i]
		phase.CPURatio = ratio(float64(phase.Engine.CPU), float64(phase.Plain.CPU))
		phase.RequestsRatio = ratio(float64(phase.Engine.Requests), float64(phase.Plain.Requests))
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// missed names the targets that were not met.
func (r *report) missed() []string {
	var missed []string
	for _, phase := range r.Phases {
		target, ok := targets[phase.Phase]
		if !ok {
			continue
		}
		if phase.CPURatio > target.cpu {
			missed = append(missed, fmt.Sprintf("CPU per %s: %.2f, target %.2f", phase.Phase, phase.CPURatio, target.cpu))
		}
		if phase.RequestsRatio > target.requests {
			missed = append(missed, fmt.Sprintf("requests per %s: %.2f, target %.2f", phase.Phase, phase.RequestsRatio, target.requests))
		}
	}
	return missed
}

// print writes the table.
func (r *report) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%d clusters, %d releases each, %d workers, %d rounds, charts of 9 objects and %d KB; figures are per release\n\n",
		r.Clusters, r.Releases, r.Workers, r.Rounds, r.Archive/1000)
	fmt.Fprintln(table, "phase\tfigure\tplain loop\tengine\tratio\ttarget")
	for _, phase := range r.Phases {
		plain, engine := phase.Plain, phase.Engine
		target := targets[phase.Phase]
		row := func(figure, format string, value func(cost) float64, limit float64) {
			wanted := ""
			if limit > 0 {
				wanted = fmt.Sprintf("%.2f", limit)
			}
			a, b := value(plain)/float64(plain.Releases), value(engine)/float64(engine.Releases)
			fmt.Fprintf(table, "%s\t%s\t"+format+"\t"+format+"\t%.2f\t%s\n", phase.Phase, figure, a, b, ratio(b, a), wanted)
		}
		row("CPU, ms", "%.1f", func(c cost) float64 { return float64(c.CPU) / float64(time.Millisecond) }, target.cpu)
		row("requests", "%.1f", func(c cost) float64 { return float64(c.Requests) }, target.requests)
		row("wall, ms", "%.0f", func(c cost) float64 { return float64(c.Wall) / float64(time.Millisecond) }, 0)
		row("KB", "%.1f", func(c cost) float64 { return float64(c.Bytes) / 1000 }, 0)
		fmt.Fprintf(table, "%s\tverbs\t%s\t%s\t\t\n", phase.Phase, verbs(plain), verbs(engine))
	}
	return table.Flush()
}

// verbs lists the requests per release by their methods.
func verbs(c cost) string {
	var parts []string
	for method, n := range c.Verbs {
		parts = append(parts, fmt.Sprintf("%s %.1f", method, float64(n)/float64(c.Releases)))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// write writes the figures as JSON.
func (r *report) write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}
