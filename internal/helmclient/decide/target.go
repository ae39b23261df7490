// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// verdicts are what newer records say of older ones.
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

// newestProven returns the newest of the records, newest first, that worked, had the time to become healthy, was not rolled
// back from since, and is wanted. It notes what those say that are newer.
func (v verdicts) newestProven(records []model.Record, isWanted func(model.Record) bool) (revision int, ok bool) {
	for _, record := range records {
		if v.allow(record) && !v.unproven[record.Revision] && isWanted(record) {
			return record.Revision, true
		}
		v.note(record)
	}
	return 0, false
}

// provenTarget returns the newest revision below the newest that is proven to work and is not what is desired.
func (s situation) provenTarget() (revision int, ok bool) {
	return newVerdicts(s.newest).newestProven(s.below(), func(record model.Record) bool { return !record.MadeFrom(s.desired) })
}

// upgradeTarget returns the revision to return to from an upgrade that could not be carried out. Where nothing else is proven to
// work, it is the newest revision of which only the proof is missing, unless what is desired is proven itself: then it is
// better tried again.
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

// unproven returns the newest revision known never to have been healthy, zero where there is none.
func (s situation) unproven() int {
	if s.past.Unproven && release.Status(s.newest.Status) == release.StatusDeployed {
		return s.newest.Revision
	}
	// A record that takes the place of the newest says it in its stead.
	return s.newest.Unproven
}

// keeps returns the revision to which a rollback would go that nothing newer is proven to replace, whatever is desired by then;
// zero where there is none, or nothing is rolled back.
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
