// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

const (
	// liveInterval is the shortest time between two screens. liveBeat is the longest, because the ages on a screen
	// change.
	liveInterval = 500 * time.Millisecond
	liveBeat     = 5 * time.Second

	// barWidth is the width of the bar of a rollout.
	barWidth = 40
)

// runLive draws the status until the context ends, and then prints it.
func (s *status) runLive(ctx context.Context, c *kube.Client, terminal *kube.Terminal) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The screen shows the warnings.
	quiet := *c
	quiet.Note = func(string, ...any) {}
	source := newFollowed(&quiet)
	if err := source.start(ctx, cancel); err != nil {
		return err
	}
	world, _, err := source.World(ctx)
	if err != nil {
		return err
	}
	if err := checkNames(world.HelmOps, s.HelmOps, c.Namespace); err != nil {
		return err
	}
	if err := s.checkAccess(world, source.access); err != nil {
		return err
	}
	if err := s.draw(ctx, source, terminal); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	if world, _, err = source.World(ctx); err != nil {
		return err
	}
	return s.print(world, s.rowWriter())
}

// draw draws a screen after each change until the context ends.
func (s *status) draw(ctx context.Context, source *followed, terminal *kube.Terminal) (err error) {
	if err := terminal.Enter(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, terminal.Leave()) }()
	for {
		_, next := source.Changes().Last()
		world, warning, err := source.World(ctx)
		if err != nil {
			return err
		}
		width, height := terminal.Size()
		lines, err := s.screen(world, warning, width, height)
		if err != nil {
			return err
		}
		if err := terminal.Draw(lines); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(liveInterval):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(liveBeat):
		case <-next:
		}
	}
}

// screen returns the lines of a screen. They are cut to its width and height.
func (s *status) screen(world *fleetview.World, warning string, width, height int) ([]string, error) {
	now := s.Now()
	lines := []string{now.Format(time.TimeOnly) + ", until Ctrl-C"}
	if warning != "" {
		lines = append(lines, "warning: "+warning)
	}
	lines = append(lines, "")
	summaries, rows := s.View(world, s.Invocation())
	if len(summaries)+len(rows) == 0 {
		lines = append(lines, "No HelmOps found.")
	}
	if s.noHeaders {
		summaries = nil
	}
	for i := range summaries {
		lines = append(lines, summaries[i].Line(now, s.allNamespaces))
		if bar := rolloutBar(&summaries[i]); bar != "" {
			lines = append(lines, "  "+bar)
		}
	}
	var table strings.Builder
	if len(rows) > 0 {
		groups := fleetview.Fold(rows, s.noFold)
		if err := groupTable(groups, now, s.allNamespaces, s.output.IsWide(), s.noHeaders).Write(&table); err != nil {
			return nil, err
		}
		lines = append(append(lines, ""), strings.Split(strings.TrimRight(table.String(), "\n"), "\n")...)
	}
	return fit(lines, width, height), nil
}

// rolloutBar returns the progress of a rollout as a bar: "#" has the newest HelmOp revision, ">" is being updated, "!"
// failed, and "." waits. The bar is empty if no rollout is running.
func rolloutBar(summary *fleetview.Summary) string {
	r, clusters := summary.Rollout, summary.Clusters
	if r == nil || clusters == nil || clusters.Selected == 0 || fleetview.IsEnded(r.Phase) {
		return ""
	}
	total := clusters.Selected
	failed, updating := min(r.Failed, total), min(r.InFlight, total)
	upToDate := max(0, min(clusters.UpToDate, total)-failed-updating)
	bar, used, passed := "", 0, int32(0)
	for _, part := range []struct {
		sign  string
		count int32
	}{{"#", upToDate}, {">", updating}, {"!", failed}} {
		passed += part.count
		end := min(barWidth, int(passed)*barWidth/int(total))
		if part.count > 0 {
			// A group of one Cluster among a thousand must be visible, too.
			end = min(barWidth, max(end, used+1))
		}
		bar, used = bar+strings.Repeat(part.sign, max(0, end-used)), max(used, end)
	}
	return fmt.Sprintf("[%s%s] %d of %d", bar, strings.Repeat(".", barWidth-used), min(clusters.UpToDate, total), total)
}

// fit cuts lines to the size of a screen. If it leaves out lines, the last line has the number of missing lines.
func fit(lines []string, width, height int) []string {
	if more := len(lines) - height; more > 0 {
		lines = append(lines[:height-1:height-1], fmt.Sprintf("... and %d more lines; --state, --cluster and --wave "+
			"show fewer", more+1))
	}
	for i, line := range lines {
		if runes := []rune(strings.TrimRight(line, " ")); len(runes) > width {
			lines[i] = string(runes[:max(0, width-3)]) + "..."
		}
	}
	return lines
}
