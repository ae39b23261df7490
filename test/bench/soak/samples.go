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

	// warmUp is the share of the run that does not count for the slope, because pools and caches fill.
	warmUp = 0.2

	// scrapeTimeout is the timeout of a read of the manager's metrics, including the garbage collection before it.
	scrapeTimeout = time.Minute
)

// sample is the size of the manager at one time.
type sample struct {
	at time.Time

	// heap is the memory in use after a garbage collection, resident the resident memory of the process, in bytes.
	heap, resident float64

	goroutines float64

	// waiting is the number of releases in the queue or waiting for a slot.
	waiting float64
}

// String implements fmt.Stringer.
func (s sample) String() string {
	return fmt.Sprintf("heap %.1f MiB, resident %.1f MiB, %.0f goroutines, %.0f waiting", s.heap/mebibyte,
		s.resident/mebibyte, s.goroutines, s.waiting)
}

// measure triggers a garbage collection in the manager and reads its metrics.
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

// slope returns the change of a value for each hour, by least squares.
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

// warm returns the samples after the warm-up.
func warm(samples []sample) []sample {
	return samples[int(float64(len(samples))*warmUp):]
}

// report prints the results. It returns an error if the manager is larger at rest than before.
func (s *soak) report(first, last sample) error {
	fmt.Printf("\n%d Clusters, %s:", s.clusters, s.duration)
	for _, what := range slices.Sorted(maps.Keys(s.happened)) {
		fmt.Printf(" %d times %s;", s.happened[what], what)
	}
	fmt.Printf(" %d Clusters in all. All objects are in the desired state.\n\n", s.made)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tat rest before\tat rest after\tgrowth\tslope per hour during changes\tlowest\thighest")
	var grown []string
	for _, row := range []struct {
		name  string
		unit  float64
		value func(sample) float64
		// limited is true if growth is a failure. The resident memory depends on the system.
		limited bool
	}{
		{"heap, MiB", mebibyte, func(s sample) float64 { return s.heap }, true},
		{"resident, MiB", mebibyte, func(s sample) float64 { return s.resident }, false},
		{"goroutines", 1, func(s sample) float64 { return s.goroutines }, true},
	} {
		growth := row.value(last)/row.value(first) - 1
		if row.limited && growth > s.growth {
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
