// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// verdicts hold what newer records imply for older revisions.
type verdicts struct {
	// rolledBack are the attempts that were rolled back from, by [model.Record].attempt.
	rolledBack map[string]bool
	// unproven are the revisions that were not healthy when their place was taken.
	unproven map[int]bool
}

func newVerdicts(records ...model.Record) verdicts {
	v := verdicts{rolledBack: map[string]bool{}, unproven: map[int]bool{}}
	for _, record := range records {
		v.note(record)
	}
	return v
}

func (v verdicts) note(record model.Record) {
	if record.Authentic() && record.RolledBackFrom != "" {
		v.rolledBack[record.RolledBackFrom] = true
	}
	if record.Unproven > 0 {
		v.unproven[record.Unproven] = true
	}
}

// allow reports whether nothing but a lack of proof speaks against a revision.
func (v verdicts) allow(record model.Record) bool {
	return record.Worked() && !v.rolledBack[record.Attempt()]
}

// newestProven returns the newest record that worked, had the time to become healthy, was not rolled back since, and
// passes isWanted. The records must be sorted, newest first. It notes what each newer record implies.
func (v verdicts) newestProven(records []model.Record, isWanted func(model.Record) bool) (revision int, ok bool) {
	for _, record := range records {
		if v.allow(record) && !v.unproven[record.Revision] && isWanted(record) {
			return record.Revision, true
		}
		v.note(record)
	}
	return 0, false
}

// provenTarget returns the newest older revision that is proven to work and was not made from the desired state.
func (s situation) provenTarget() (revision int, ok bool) {
	return newVerdicts(s.newest).newestProven(s.below(),
		func(record model.Record) bool { return !record.MadeFrom(s.desired) })
}

// upgradeTarget returns the revision to roll back to after an upgrade that could not be carried out. If no other
// revision is proven to work, it is the newest one that lacks only the proof. There is no target if the desired state
// itself is proven: another attempt is better then.
func (s situation) upgradeTarget() (revision int, ok bool) {
	if revision, ok = s.provenTarget(); ok {
		return revision, true
	}
	isDesired := func(record model.Record) bool { return record.MadeFrom(s.desired) }
	if _, ok = newVerdicts(s.newest).newestProven(s.below(), isDesired); ok {
		return 0, false
	}
	all := newVerdicts(append([]model.Record{s.newest}, s.below()...)...)
	for _, record := range s.below() {
		if all.allow(record) && !isDesired(record) {
			return record.Revision, true
		}
	}
	return 0, false
}

// unproven returns the newest revision that is known never to have been healthy, zero if there is none.
func (s situation) unproven() int {
	if s.past.Unproven && release.Status(s.newest.Status) == release.StatusDeployed {
		return s.newest.Revision
	}
	// The record that replaces the newest one must keep this information.
	return s.newest.Unproven
}

// keeps returns the revision that a later rollback may need, whatever the desired state is by then: the newest proven
// one. It is zero if there is none, or if the policy does not roll back.
func (s situation) keeps() int {
	if s.policy.Upgrade.Remediate != model.RemediateRollback {
		return 0
	}
	v := newVerdicts(model.Record{Unproven: s.unproven()})
	records := s.below()
	if release.Status(s.newest.Status) == release.StatusDeployed {
		records = append([]model.Record{s.newest}, records...)
	} else {
		v.note(s.newest)
	}
	revision, _ := v.newestProven(records, func(model.Record) bool { return true })
	return revision
}
