// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// Limits are when the releases of a HelmOp may be changed in one Cluster. The zero value permits changes at any time.
type Limits struct {
	rules    []*rules
	includes []addonsv1.MaintenanceScope
}

// rules are the limits from one author.
type rules struct {
	// whose names the author in messages: "the HelmOp" or "the Cluster".
	whose   string
	windows []window
	freezes []freeze
	veto    string
	// invalid is why the limits cannot be read; empty if they can.
	invalid string
}

// Policy is spec.maintenance of a HelmOp, parsed. The zero value sets no limits.
type Policy struct {
	own      *rules
	includes []addonsv1.MaintenanceScope
	// ignoresClusters is true if the limits of Clusters do not count.
	ignoresClusters bool
}

// PolicyOf parses spec.maintenance of a HelmOp; nil is no limits.
func PolicyOf(spec *addonsv1.Maintenance) Policy {
	if spec == nil {
		return Policy{}
	}
	return Policy{own: rulesOfSpec(spec), includes: spec.Includes,
		ignoresClusters: spec.ClusterLimits == addonsv1.ClusterLimitsIgnored}
}

// Invalid returns why spec.maintenance cannot be read; empty if it can.
func (p Policy) Invalid() string {
	if p.own == nil {
		return ""
	}
	return p.own.invalid
}

// For returns the limits for a Cluster with these annotations.
func (p Policy) For(annotations map[string]string) Limits {
	limits := Limits{includes: p.includes}
	if p.own != nil {
		limits.rules = append(limits.rules, p.own)
	}
	if p.ignoresClusters {
		return limits
	}
	if own := rulesOfCluster(annotations); own != nil {
		limits.rules = append(limits.rules, own)
	}
	return limits
}

// Covers reports whether a kind of action waits, too.
func (l Limits) Covers(scope addonsv1.MaintenanceScope) bool {
	return slices.Contains(l.includes, scope)
}

// State is whether a release may be changed.
type State struct {
	// Closed is true if it must not be changed, and Why says why, for users: "the windows of the HelmOp are closed until
	// 2026-11-26T22:00:00Z".
	Closed bool
	Why    string

	// Opens is when changes are permitted again, unless the limits change; zero if this is not known.
	Opens time.Time

	// Opened is since when changes are permitted. It is zero if Closed, and if they were never forbidden.
	Opened time.Time
}

// maxSteps bounds the search for a time that all limits permit. Each step passes a closed window or a freeze: two sets
// of daily windows are compared for half a year.
const maxSteps = 400

// At returns the state for a time.
func (l Limits) At(now time.Time) State {
	first := l.blocker(now)
	if first == nil {
		return State{Opened: l.openedAt(now)}
	}
	state := State{Closed: true, Why: first.why}
	blocker := first
	for range maxSteps {
		at := blocker.until
		if at.IsZero() {
			return state
		}
		if blocker = l.blocker(at); blocker == nil {
			state.Opens = at
			state.Why += " until " + at.UTC().Format(time.RFC3339)
			return state
		}
	}
	state.Why += ", and there is no time that all limits permit"
	return state
}

// blocker is a limit that forbids changes until a time; zero if the time is not known.
type blocker struct {
	why   string
	until time.Time
}

// blocker returns the first limit that forbids changes at a time; nil if there is none. Limits that only a user can
// lift come first.
func (l Limits) blocker(at time.Time) *blocker {
	for _, r := range l.rules {
		switch {
		case r.invalid != "":
			return &blocker{why: r.invalid}
		case r.veto != "":
			return &blocker{why: fmt.Sprintf("%s has a veto: %s", r.whose, r.veto)}
		}
	}
	for _, r := range l.rules {
		for _, f := range r.freezes {
			if f.covers(at) {
				return &blocker{why: f.why(r.whose), until: f.until}
			}
		}
	}
	for _, r := range l.rules {
		if len(r.windows) == 0 || slices.ContainsFunc(r.windows, func(w window) bool { return w.isOpen(at) }) {
			continue
		}
		return &blocker{why: fmt.Sprintf("the maintenance windows of %s are closed", r.whose), until: r.nextOpening(at)}
	}
	return nil
}

// openedAt returns since when all limits permit changes; now is a time at which they do. It is zero without limits.
func (l Limits) openedAt(now time.Time) time.Time {
	var opened time.Time
	later := func(at time.Time) {
		if at.After(opened) {
			opened = at
		}
	}
	for _, r := range l.rules {
		for _, f := range r.freezes {
			if !f.until.After(now) {
				later(f.until)
			}
		}
		var earliest time.Time
		for _, w := range r.windows {
			if began := w.opening(now); !began.IsZero() && (earliest.IsZero() || began.Before(earliest)) {
				earliest = began
			}
		}
		later(earliest)
	}
	return opened
}

// nextOpening returns when the next window opens; zero if none does.
func (r *rules) nextOpening(after time.Time) time.Time {
	var next time.Time
	for _, w := range r.windows {
		if opens := w.schedule.Next(after); !opens.IsZero() && (next.IsZero() || opens.Before(next)) {
			next = opens
		}
	}
	return next
}

// rulesOfSpec parses the limits of a HelmOp.
func rulesOfSpec(spec *addonsv1.Maintenance) *rules {
	r := &rules{whose: "the HelmOp", veto: strings.TrimSpace(spec.Veto)}
	for i, w := range spec.Windows {
		parsed, err := newWindow(w.Schedule, w.Duration.Duration, w.TimeZone)
		if err != nil {
			r.invalid = fmt.Sprintf("spec.maintenance.windows[%d]: %v", i, err)
			return r
		}
		r.windows = append(r.windows, parsed)
	}
	for _, f := range spec.Freezes {
		r.freezes = append(r.freezes, freeze{from: f.From.Time, until: f.Until.Time, reason: f.Reason})
	}
	return r
}

// rulesOfCluster parses the limits in the annotations of a Cluster; nil if there are none.
func rulesOfCluster(annotations map[string]string) *rules {
	windows := annotations[addonsv1.MaintenanceWindowsAnnotation]
	freezes := annotations[addonsv1.MaintenanceFreezesAnnotation]
	r := &rules{whose: "the Cluster", veto: clip(strings.TrimSpace(annotations[addonsv1.MaintenanceVetoAnnotation]))}
	if windows == "" && freezes == "" && r.veto == "" {
		return nil
	}
	invalid := func(annotation string, err error) *rules {
		r.invalid = fmt.Sprintf("the annotation %s of the Cluster is not valid: %v", annotation, err)
		return r
	}
	var err error
	if r.windows, err = parseEach(windows, parseWindow); err != nil {
		return invalid(addonsv1.MaintenanceWindowsAnnotation, err)
	}
	if r.freezes, err = parseEach(freezes, parseFreeze); err != nil {
		return invalid(addonsv1.MaintenanceFreezesAnnotation, err)
	}
	return r
}
