// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	mebibyte = 1 << 20

	// warmUp is the share of the run that does not count for the slope: pools and caches fill.
	warmUp = 0.2

	// scrapeTimeout bounds a read of the manager's metrics, and a collection of its garbage before.
	scrapeTimeout = time.Minute
)

// sample is what the manager takes at a moment.
type sample struct {
	at time.Time

	// heap is what is in use after a collection of garbage, resident what the process holds; in bytes.
	heap, resident float64

	goroutines float64

	// waiting is how many releases are in the queue or in line.
	waiting float64
}

// String implements fmt.Stringer.
func (s sample) String() string {
	return fmt.Sprintf("heap %.1f MiB, resident %.1f MiB, %.0f goroutines, %.0f waiting", s.heap/mebibyte,
		s.resident/mebibyte, s.goroutines, s.waiting)
}

// measure has the manager collect its garbage and reads its metrics.
func (s *soak) measure(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	if err := s.manager.CollectGarbage(ctx); err != nil {
		return sample{}, err
	}
	metrics, err := s.manager.Metrics(ctx)
	return sample{
		at:         time.Now(),
		heap:       metrics.Sum("go_memstats_heap_alloc_bytes"),
		resident:   metrics.Sum("process_resident_memory_bytes"),
		goroutines: metrics.Sum("go_goroutines"),
		waiting:    metrics.Sum("workqueue_depth") + metrics.Sum("helmop_action_slots_waiting"),
	}, err
}

// slope is by how much a value changes per hour, by least squares.
func slope(samples []sample, value func(sample) float64) float64 {
	if len(samples) < 2 {
		return 0
	}
	var meanX, meanY float64
	for _, s := range samples {
		meanX += s.at.Sub(samples[0].at).Hours() / float64(len(samples))
		meanY += value(s) / float64(len(samples))
	}
	var xy, xx float64
	for _, s := range samples {
		x := s.at.Sub(samples[0].at).Hours() - meanX
		xy += x * (value(s) - meanY)
		xx += x * x
	}
	if xx == 0 {
		return 0
	}
	return xy / xx
}

// warm are the samples after the warm-up.
func warm(samples []sample) []sample {
	return samples[int(float64(len(samples))*warmUp):]
}

// report tells what was measured. It is an error if the manager takes more at rest than before.
func (s *soak) report(first, last sample) error {
	fmt.Printf("\n%d Clusters, %s:", s.clusters, s.duration)
	for _, what := range slices.Sorted(maps.Keys(s.happened)) {
		fmt.Printf(" %d times %s;", s.happened[what], what)
	}
	fmt.Printf(" %d Clusters in all. Everything is as it is wanted.\n\n", s.made)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tat rest before\tat rest after\tgrowth\tslope per hour while things happen\tlowest\thighest")
	var grown []string
	for _, row := range []struct {
		name  string
		unit  float64
		value func(sample) float64
		// judged tells that growth is a failure. What is resident depends on what the system takes back.
		judged bool
	}{
		{"heap, MiB", mebibyte, func(s sample) float64 { return s.heap }, true},
		{"resident, MiB", mebibyte, func(s sample) float64 { return s.resident }, false},
		{"goroutines", 1, func(s sample) float64 { return s.goroutines }, true},
	} {
		growth := row.value(last)/row.value(first) - 1
		if row.judged && growth > s.growth {
			grown = append(grown, fmt.Sprintf("%s by %.0f %%", row.name, growth*100))
		}
		lowest, highest := row.value(first), row.value(first)
		for _, now := range s.samples {
			lowest, highest = min(lowest, row.value(now)), max(highest, row.value(now))
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%+.1f %%\t%+.1f\t%.1f\t%.1f\n", row.name, row.value(first)/row.unit,
			row.value(last)/row.unit, growth*100,
			slope(warm(s.samples), row.value)/row.unit, lowest/row.unit, highest/row.unit)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(grown) > 0 {
		return fmt.Errorf("%w: %s", errGrown, strings.Join(grown, ", "))
	}
	return nil
}
