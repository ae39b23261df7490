// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

const (
	// fleetAge is the shortest time for which a fleet is shown. During a rollout, objects change many times a second.
	fleetAge = time.Second

	// fleetRest is the factor of a longer time, for large fleets. A fleet is shown for at least this many times the time
	// that its computation took. So changes cost at most a tenth of a CPU, however many pages are open.
	fleetRest = 10

	// fleetKept is how long a fleet stays in memory after the last request for it. It holds old versions of all objects.
	fleetKept = time.Minute
)

// fleet holds the data that all pages show. A fleet is immutable.
type fleet struct {
	*fleetview.World
	warning string
	change  uint64

	// rows are the rows of all HelmOps, the most urgent first.
	rows []fleetview.Row
	// summaries are the summaries of all HelmOps, the unhealthy ones first.
	summaries []fleetview.Summary
}

// fleet returns the fleet after the last change, or an earlier fleet that is not due to be replaced.
func (s *server) fleet(ctx context.Context) (*fleet, error) {
	// A stream has no deadline, but must not keep the lock while the source does not answer.
	ctx, cancel := context.WithTimeoutCause(ctx, viewTimeout, errSilent)
	defer cancel()
	select {
	case s.lock <- struct{}{}:
		defer s.unlock()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.forget.Reset(fleetKept)
	change, _ := s.Source.Changes().Last()
	began := time.Now()
	if s.cached != nil && (s.cached.change == change || began.Before(s.due)) {
		return s.cached, nil
	}
	world, warning, err := s.Source.World(ctx)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	f := &fleet{World: world, warning: warning, change: change}
	f.summaries, f.rows = (&fleetview.Filter{}).View(world, s.Program)
	ended := time.Now()
	s.cached, s.due = f, ended.Add(max(fleetAge, fleetRest*ended.Sub(began)))
	return f, nil
}

// unlock gives the lock back.
func (s *server) unlock() { <-s.lock }

// untilDue returns how long the present fleet is still shown after a change.
func (s *server) untilDue() time.Duration {
	s.lock <- struct{}{}
	defer s.unlock()
	return time.Until(s.due)
}

// forgetFleet drops the fleet. The next request computes it again.
func (s *server) forgetFleet() {
	s.lock <- struct{}{}
	defer s.unlock()
	s.cached = nil
}

// helmOp returns a HelmOp; nil if it does not exist.
func (f *fleet) helmOp(key client.ObjectKey) *addonsv1.HelmOp { return f.HelmOps[key] }

// rowsOf returns the rows of a HelmOp.
func (f *fleet) rowsOf(helmOp client.ObjectKey) []fleetview.Row {
	return where(f.rows, func(row *fleetview.Row) bool {
		return row.HelmOp == helmOp.Name && row.Namespace == helmOp.Namespace
	})
}

// where returns the rows for which a condition is true.
func where(rows []fleetview.Row, isWanted func(*fleetview.Row) bool) []fleetview.Row {
	var wanted []fleetview.Row
	for i := range rows {
		if isWanted(&rows[i]) {
			wanted = append(wanted, rows[i])
		}
	}
	return wanted
}

// say returns the state of the fleet in a few words, for screen readers.
func (f *fleet) say() string {
	unhealthy := 0
	for i := range f.rows {
		if f.rows[i].State.IsUnhealthy() {
			unhealthy++
		}
	}
	parts := []string{plural.Count(len(f.rows), "release", "releases"), fmt.Sprintf("%d unhealthy", unhealthy)}
	waiting := 0
	for i := range f.summaries {
		if len(f.summaries[i].Next) > 0 {
			waiting++
		}
	}
	if waiting > 0 {
		parts = append(parts, plural.Count(waiting, "HelmOp needs", "HelmOps need")+" you")
	}
	return strings.Join(parts, ", ")
}

// tally is the number of rows in a state.
type tally struct {
	State fleetview.State
	Count int
}

// talliesOf counts rows by their state, the most urgent state first. It omits states without a row.
func talliesOf(rows []fleetview.Row) []tally {
	counts := map[fleetview.State]int{}
	for i := range rows {
		counts[rows[i].State]++
	}
	var tallies []tally
	for _, state := range fleetview.States {
		if counts[state] > 0 {
			tallies = append(tallies, tally{state, counts[state]})
		}
	}
	return tallies
}

// barOf returns a bar for tallies.
func barOf(tallies []tally) bar {
	parts := make([]part, 0, len(tallies))
	for _, t := range tallies {
		parts = append(parts, part{Name: string(t.State), Class: classOf(t.State), Count: t.Count})
	}
	return newBar(parts...)
}
