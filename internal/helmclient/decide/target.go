// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// exclusions holds the attempts and revisions that newer records exclude as targets of a rollback.
type exclusions struct {
	// rolledBack holds the attempts that were rolled back, by [model.Record].Attempt.
	rolledBack map[string]bool
	// unproven holds the revisions that were not healthy when they were replaced.
	unproven map[int]bool
}

// newExclusions returns the exclusions from records.
func newExclusions(records ...model.Record) exclusions {
	e := exclusions{rolledBack: map[string]bool{}, unproven: map[int]bool{}}
	for _, record := range records {
		e.note(record)
	}
	return e
}

// note adds the exclusions from a record.
func (e exclusions) note(record model.Record) {
	if record.Authentic() && record.RolledBackFrom != "" {
		e.rolledBack[record.RolledBackFrom] = true
	}
	if record.Unproven > 0 {
		e.unproven[record.Unproven] = true
	}
}

// allow reports whether a revision worked and was not rolled back. The revision may be unproven.
func (e exclusions) allow(record model.Record) bool {
	return record.Worked() && !e.rolledBack[record.Attempt()]
}

// newestProven returns the newest record that worked and matches, had time to become healthy, and was not rolled back
// afterwards. The records must be sorted, newest first. newestProven adds the exclusions from each record that is newer
// than the result.
func (e exclusions) newestProven(records []model.Record, matches func(model.Record) bool) (revision int, ok bool) {
	for _, record := range records {
		if e.allow(record) && !e.unproven[record.Revision] && matches(record) {
			return record.Revision, true
		}
		e.note(record)
	}
	return 0, false
}

// provenTarget returns the newest older revision that is proven to work and was not made from the desired state.
func (s situation) provenTarget() (revision int, ok bool) {
	return newExclusions(s.newest).newestProven(s.below(),
		func(record model.Record) bool { return !record.MadeFrom(s.desired) })
}

// upgradeTarget returns the Helm revision to roll back to after a failed upgrade: the newest proven revision with
// another state than the desired one. If there is none, upgradeTarget returns the newest unproven revision that was
// deployed successfully. ok is false if the desired state itself is proven: then another attempt is better than a
// rollback.
func (s situation) upgradeTarget() (revision int, ok bool) {
	if revision, ok = s.provenTarget(); ok {
		return revision, true
	}
	isDesired := func(record model.Record) bool { return record.MadeFrom(s.desired) }
	if _, ok = newExclusions(s.newest).newestProven(s.below(), isDesired); ok {
		return 0, false
	}
	all := newExclusions(append([]model.Record{s.newest}, s.below()...)...)
	for _, record := range s.below() {
		if all.allow(record) && !isDesired(record) {
			return record.Revision, true
		}
	}
	return 0, false
}

// unproven returns the newest revision that is known never to have been healthy; zero if there is none.
func (s situation) unproven() int {
	if s.past.Unproven && release.Status(s.newest.Status) == release.StatusDeployed {
		return s.newest.Revision
	}
	// The record that replaces the newest one must keep this information.
	return s.newest.Unproven
}

// keeps returns the newest proven revision, because a later rollback may need it for any desired state. It returns zero
// if there is no such revision, or if the policy does not roll back.
func (s situation) keeps() int {
	if s.policy.Upgrade.Remediate != model.RemediateRollback {
		return 0
	}
	excluded := newExclusions(model.Record{Unproven: s.unproven()})
	records := s.below()
	if release.Status(s.newest.Status) == release.StatusDeployed {
		records = append([]model.Record{s.newest}, records...)
	} else {
		excluded.note(s.newest)
	}
	revision, _ := excluded.newestProven(records, func(model.Record) bool { return true })
	return revision
}
