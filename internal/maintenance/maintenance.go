// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"fmt"
	"slices"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// Limits define when the releases of a HelmOp may be changed in one Cluster. The zero value permits changes at any
// time.
type Limits struct {
	rules    []*rules
	includes []addonsv1.MaintenanceScope
}

// Policy is spec.maintenance of a HelmOp, parsed. The zero value sets no limits.
type Policy struct {
	own      *rules
	includes []addonsv1.MaintenanceScope
	// ignoresClusters is true if the limits of Clusters are ignored.
	ignoresClusters bool
}

// PolicyOf parses spec.maintenance of a HelmOp. Nil sets no limits.
func PolicyOf(spec *addonsv1.Maintenance) Policy {
	if spec == nil {
		return Policy{}
	}
	return Policy{own: rulesOfSpec(spec), includes: spec.Includes,
		ignoresClusters: spec.ClusterLimits == addonsv1.ClusterLimitsIgnored}
}

// Invalid returns why spec.maintenance cannot be parsed; empty if it is valid.
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

// Covers reports whether the limits apply to a kind of action.
func (l Limits) Covers(scope addonsv1.MaintenanceScope) bool {
	return slices.Contains(l.includes, scope)
}

// State says whether a release may be changed.
type State struct {
	// Closed is true if the release must not be changed. Why is the reason, for users: "the windows of the HelmOp are
	// closed until 2026-11-26T22:00:00Z".
	Closed bool
	Why    string

	// Opens is when changes are permitted again, unless the limits change; zero if the time is not known.
	Opens time.Time

	// Invalid is true if the limits cannot be parsed.
	Invalid bool
}

// At returns the state for a time.
func (l Limits) At(now time.Time) State {
	first := l.blocker(now)
	if first == nil {
		return State{}
	}
	state := State{Closed: true, Why: first.why, Invalid: first.invalid}
	if first.until.IsZero() {
		return state
	}
	if state.Opens = l.opening(now, first.until); state.Opens.IsZero() {
		state.Why += ", and HelmOp found no time that all limits allow"
		return state
	}
	state.Why += " until " + state.Opens.UTC().Format(time.RFC3339)
	return state
}

// blocker is a limit that forbids changes until a time. The time is zero if it is not known.
type blocker struct {
	why     string
	until   time.Time
	invalid bool
}

// blocker returns the first limit that forbids changes at a time; nil if there is none. Limits that only a user can
// remove come first.
func (l Limits) blocker(at time.Time) *blocker {
	for _, r := range l.rules {
		switch {
		case r.invalid != "":
			return &blocker{why: r.invalid, invalid: true}
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
