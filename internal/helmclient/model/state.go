// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/types"
)

// State is the state of a release compared with the desired state. The set is closed.
type State string

const (
	// StateAbsent means that Helm has no record of the release.
	StateAbsent State = "Absent"
	// StateInSync means that the newest revision was made by HelmOp from the desired state and is deployed.
	StateInSync State = "InSync"
	// StateOutOfSync means that HelmOp created the newest revision from a state that differs from the desired state, or
	// that the newest revision is no longer deployed.
	StateOutOfSync State = "OutOfSync"
	// StateFailed means that HelmOp created the newest revision from the desired state, and that the revision or its tests
	// failed. It also means a failed rollback from the desired state.
	StateFailed State = "Failed"
	// StateRolledBack means that the newest revision is the rollback after a failed attempt at the desired state.
	StateRolledBack State = "RolledBack"
	// StateUntested means that the newest revision is in sync, but its tests are enabled and have not run.
	StateUntested State = "Untested"
	// StateDrifted means that objects differ from the manifest of the newest revision, which is in sync or the target of a
	// rollback.
	StateDrifted State = "Drifted"
	// StatePending means that an action on the release is running or was interrupted.
	StatePending State = "Pending"
	// StateUninstalling means that an uninstallation is running, was interrupted or failed.
	StateUninstalling State = "Uninstalling"
	// StateUninstalled means that the release is uninstalled and its history was kept. Such a release has no owner.
	StateUninstalled State = "Uninstalled"
	// StateUnmanaged means that the release belongs to the owner, but HelmOp did not create its newest revision.
	StateUnmanaged State = "Unmanaged"
	// StateForeign means that the release belongs to another owner or management cluster, or was not installed by HelmOp.
	StateForeign State = "Foreign"
	// StateUnreachable means that the cluster did not respond, so the state is unknown, see [decide.Unreachable].
	StateUnreachable State = "Unreachable"
)

// Difference is a part of the desired state in which a release differs.
type Difference string

const (
	// DifferenceArtifact means that another artifact is desired.
	DifferenceArtifact Difference = "artifact"
	// DifferenceValues means that other values are desired.
	DifferenceValues Difference = "values"
	// DifferenceOptions means that other options are desired.
	DifferenceOptions Difference = "options"
	// DifferencePostRender means that another post-rendering is desired.
	DifferencePostRender Difference = "post-rendering"
)

// Helm's statuses of a revision that is installed, and of one that was installed until another revision replaced it.
const (
	StatusDeployed   = "deployed"
	StatusSuperseded = "superseded"
)

// Record holds the labels of one of Helm's release Secrets.
type Record struct {
	// ID is the UID of the Secret. It distinguishes revisions of the same number before and after a reinstallation. Empty
	// if it is unknown.
	ID types.UID
	// Revision is Helm's number of the revision, from 1.
	Revision int
	// Status is Helm's status of the revision, such as "deployed".
	Status string
	// Owner and UID are the Owner and UID in the [Desired] from which the revision was made; empty if HelmOp never managed
	// the release.
	Owner, UID string
	// ManagementCluster is the management cluster of the manager that created the revision, see [LabelManagementCluster];
	// empty if it is unknown.
	ManagementCluster string
	// ArtifactDigest, ValuesDigest, OptionsDigest and PostRenderDigest are the shortened digests of the state from which
	// the revision was made.
	ArtifactDigest, ValuesDigest, OptionsDigest, PostRenderDigest string
	// LabelledRevision is the revision for which the labels were written. If it differs from Revision, Helm copied the
	// labels, and HelmOp did not create the revision. Zero if the label is absent.
	LabelledRevision int
	// Failures is the number of earlier failed attempts at the same state, see [LabelFailures].
	Failures int
	// RolledBackFrom is the shortened digest of the attempt that was rolled back; empty if the revision is not a rollback
	// by HelmOp.
	RolledBackFrom string
	// RollbackFailures is the number of successive failed rollbacks before this rollback.
	RollbackFailures int
	// Tested is the result of the tests of the revision, see [LabelTested]; empty if they did not run yet.
	Tested string
	// Interrupted means that the revision is failed because its action was interrupted.
	Interrupted bool
	// Interruptions is the number of successive interrupted attempts at the same state before this attempt.
	Interruptions int
	// Unproven is an older revision that had not become healthy when it was replaced, see [LabelUnproven]; zero if none is
	// known.
	Unproven int
	// Request is the shortened digest of the retry request that led to the revision, see [LabelRequest].
	Request string
	// Shard is the shard of the process that wrote the record last, see [LabelShard].
	Shard string
	// Uninstalling means that this engine began to uninstall the release, see [LabelUninstalling].
	Uninstalling bool
	// NeverWorked means that the release is being uninstalled and that no revision of it ever worked, see
	// [LabelNeverWorked].
	NeverWorked bool
	// MayHaveWorked means that objects of a failed revision may have worked before, see [LabelMayHaveWorked].
	MayHaveWorked bool
	// IsPointer means that the record is a pointer to a payload.
	IsPointer bool
	// Deadline is the latest end of the running action on the record, see [LabelDeadline]; zero if it is unknown.
	Deadline time.Time
	// AttemptsSince is when the first attempt at the same digests began after the last success, see [LabelAttemptsSince].
	// Without a valid label, it is the creation time of the record; zero if this time is unknown.
	AttemptsSince time.Time
	// ChangedAt is when the record was last written, according to its metadata: the later of the times of the API server
	// and of the process that wrote it.
	ChangedAt time.Time
	// ServerTime is when the record was last written, according to the clock of the API server; zero if it is unknown.
	ServerTime time.Time
	// WrittenAt is when the record was last written, according to Helm's own labels and the clock of the process that
	// wrote it; zero if it is unknown. A change of labels by an adoption or a takeover does not count.
	WrittenAt time.Time
}

// Observation is the content of Helm's storage in a cluster for one release.
type Observation struct {
	// Records are the revisions, newest first. Empty if there is no release.
	Records []Record
	// ReadAt is when the read of the records began; zero if it is not known. An action may have changed them since then.
	ReadAt time.Time
	// Assumed means that the records were not read: a list of all records of the cluster has shown a moment ago that the
	// namespace of the release has none. Only an installation may be based on it, see [decide.Decision].Assumed.
	Assumed bool
}

// RecordChanges are the changes that an action made to the records of its release.
type RecordChanges struct {
	// Written has the records that the action wrote, as the last write left them.
	Written []Record
	// Deleted has the IDs of the records that the action deleted.
	Deleted []types.UID
}

// After returns the observation that follows from this one by the changes of an action. ok is false if the result has
// two records of one revision, for example because a user has copied a record.
func (o Observation) After(changes *RecordChanges) (after Observation, ok bool) {
	replaced := make(map[types.UID]bool, len(changes.Written)+len(changes.Deleted))
	for _, id := range changes.Deleted {
		replaced[id] = true
	}
	for i := range changes.Written {
		replaced[changes.Written[i].ID] = true
	}
	after.Records, after.ReadAt = slices.Clone(changes.Written), o.ReadAt
	for i := range o.Records {
		if !replaced[o.Records[i].ID] {
			after.Records = append(after.Records, o.Records[i])
		}
	}
	slices.SortFunc(after.Records, func(a, b Record) int { return b.Revision - a.Revision })
	for i := 1; i < len(after.Records); i++ {
		if after.Records[i-1].Revision == after.Records[i].Revision {
			return Observation{}, false
		}
	}
	return after, true
}

// Newest returns the newest revision; ok is false if there is none.
func (o Observation) Newest() (newest Record, ok bool) {
	if len(o.Records) == 0 {
		return Record{}, false
	}
	return o.Records[0], true
}

// Claimed returns the newest record with a UID, see [Record.UID]; ok is false if there is none.
func (o Observation) Claimed() (record Record, ok bool) {
	for _, record := range o.Records {
		if record.UID != "" {
			return record, true
		}
	}
	return Record{}, false
}

// ReleaseUID returns the UID in the newest record that has one, see [Record.UID]; empty if no record has one.
func (o Observation) ReleaseUID() string {
	record, _ := o.Claimed()
	return record.UID
}

// Owner returns the owner on the newest record that names an owner; empty if no record does. The newest record may lack
// the label, because Helm before 3.13 does not copy labels when a person upgrades the release.
func (o Observation) Owner() string {
	for _, record := range o.Records {
		if record.Owner != "" {
			return record.Owner
		}
	}
	return ""
}

// Authentic reports whether the labels were written for this revision and not copied from another revision.
func (r Record) Authentic() bool {
	return r.Owner != "" && r.LabelledRevision == r.Revision
}

// Differences returns the differences between the record and the desired state.
func (r Record) Differences(d Desired) []Difference {
	var differ []Difference
	if r.ArtifactDigest != DigestLabel(d.ArtifactDigest) {
		differ = append(differ, DifferenceArtifact)
	}
	if r.ValuesDigest != DigestLabel(d.ValuesDigest) {
		differ = append(differ, DifferenceValues)
	}
	if r.OptionsDigest != DigestLabel(d.OptionsDigest) {
		differ = append(differ, DifferenceOptions)
	}
	if r.PostRenderDigest != DigestLabel(d.PostRenderDigest) {
		differ = append(differ, DifferencePostRender)
	}
	return differ
}

// MadeFrom reports whether HelmOp created the record from the desired state.
func (r Record) MadeFrom(d Desired) bool {
	return r.Authentic() && len(r.Differences(d)) == 0
}

// IsRolledBackFrom reports whether the record is a rollback by HelmOp from the desired state.
func (r Record) IsRolledBackFrom(d Desired) bool {
	return r.Authentic() && r.RolledBackFrom != "" && r.RolledBackFrom == AttemptLabel(d)
}

// TriedFor reports whether the record is an attempt by HelmOp at the desired state, or a rollback from such an attempt.
func (r Record) TriedFor(d Desired) bool {
	return r.IsRolledBackFrom(d) || r.MadeFrom(d) && r.RolledBackFrom == ""
}

// IsTryOf reports whether the record is an attempt at the desired state for the owner, or a rollback from such an
// attempt.
func (r Record) IsTryOf(d Desired) bool {
	return r.Owner == OwnerLabel(d.Owner) && r.TriedFor(d)
}

// handles reports whether the record is an attempt at the desired state because of the request.
func (r Record) handles(request string, d Desired) bool {
	return request != "" && r.Request == DigestLabel(request) && r.IsTryOf(d)
}

// Attempt returns the shortened digest of the record's attempt, as in [Record].RolledBackFrom; empty if HelmOp did not
// create the revision.
func (r Record) Attempt() string {
	if !r.Authentic() {
		return ""
	}
	return AttemptLabel(Desired{
		ArtifactDigest: r.ArtifactDigest, ValuesDigest: r.ValuesDigest, OptionsDigest: r.OptionsDigest,
		PostRenderDigest: r.PostRenderDigest,
	})
}

// IsDeployedFor reports whether the revision is deployed and was created for the object of the desired release.
func (r Record) IsDeployedFor(d Desired) bool {
	return release.Status(r.Status) == release.StatusDeployed && r.Authentic() && r.UID == d.UID
}

// WasInterrupted reports whether the action that created the revision was interrupted.
func (r Record) WasInterrupted() bool {
	status := release.Status(r.Status)
	return status.IsPending() || status == release.StatusFailed && r.Interrupted
}

// IsPendingSince reports whether HelmOp wrote the record for the desired state at or after a time, and the action on it
// is running or was interrupted. Times in records have whole seconds.
func (r Record) IsPendingSince(d Desired, since time.Time) bool {
	return release.Status(r.Status).IsPending() && r.MadeFrom(d) && !r.ChangedAt.Before(since.Truncate(time.Second))
}

// TestsFailed reports whether the tests of this revision ran and failed.
func (r Record) TestsFailed() bool { return r.Authentic() && r.Tested == TestedFailed }

// WasApplied reports whether the revision was once applied completely, by HelmOp or another process.
func (r Record) WasApplied() bool {
	status := release.Status(r.Status)
	return status == release.StatusDeployed || status == release.StatusSuperseded
}

// Worked reports whether the revision was once applied completely, by HelmOp or another process, and did not fail its
// tests.
func (r Record) Worked() bool { return r.WasApplied() && !r.TestsFailed() }

// State compares the observed with the desired state. It ignores policies and the caller's state: an untested or
// drifted release is in sync.
func (o Observation) State(d Desired) State {
	newest, ok := o.Newest()
	status := release.Status(newest.Status)
	switch {
	case !ok:
		return StateAbsent
	case status == release.StatusUninstalled:
		return StateUninstalled
	case o.Owner() != OwnerLabel(d.Owner), !o.isOfManagementCluster(d):
		return StateForeign
	case status == release.StatusUninstalling:
		return StateUninstalling
	case status.IsPending():
		return StatePending
	case !newest.Authentic():
		return StateUnmanaged
	case newest.IsRolledBackFrom(d) && status == release.StatusDeployed:
		return StateRolledBack
	case newest.IsRolledBackFrom(d) && status == release.StatusFailed:
		return StateFailed
	case len(newest.Differences(d)) > 0:
		return StateOutOfSync
	case status == release.StatusDeployed:
		return StateInSync
	case status == release.StatusFailed:
		return StateFailed
	default:
		// The status is "superseded" if the record of the successor was deleted. Otherwise it is "unknown".
		return StateOutOfSync
	}
}

// FailuresAt returns the number of failed attempts at the desired state when the record was last written.
func (r Record) FailuresAt(d Desired) int {
	switch {
	case r.IsRolledBackFrom(d):
		return max(r.Failures, 1)
	case !r.MadeFrom(d) || r.RolledBackFrom != "":
		// The record is an attempt at another state, or a rollback from another state to the desired state.
		return 0
	case release.Status(r.Status) == release.StatusFailed && !r.Interrupted:
		return r.Failures + 1
	case r.TestsFailed():
		return max(r.Failures, 1)
	default:
		return r.Failures
	}
}

// IsFor reports whether the revision was created for the object of the desired release.
func (r Record) IsFor(desired Desired) bool {
	return r.Authentic() && desired.UID != "" && r.UID == desired.UID
}

// HasDeadline reports whether the record has the deadline of its running action. A copied label, on a record that the
// helm command created, does not count. An uninstallation sets the label on any record.
func (r Record) HasDeadline() bool { return (r.Authentic() || r.Uninstalling) && !r.Deadline.IsZero() }

// IsPointerUninstalledByHand reports whether the helm command uninstalled a release whose record is a pointer. In this
// case, the helm command deletes no objects.
func (r Record) IsPointerUninstalledByHand() bool { return r.IsPointer && !r.Uninstalling }
