// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/types"
)

// State is what a release is in, compared with what is desired. The set is closed.
type State string

const (
	// StateAbsent means that Helm has no record of the release.
	StateAbsent State = "Absent"
	// StateInSync means that the newest revision is ours, deployed, and made from what is desired.
	StateInSync State = "InSync"
	// StateOutOfSync means that the newest revision is ours and made from something else than is desired, or
	// that it is no longer the deployed one.
	StateOutOfSync State = "OutOfSync"
	// StateFailed means that the newest revision is ours, made from what is desired, and failed, or its tests did; or
	// that it is a rollback from what is desired, and failed.
	StateFailed State = "Failed"
	// StateRolledBack means that the newest revision is the return to an earlier one after a try at what is desired failed.
	StateRolledBack State = "RolledBack"
	// StateUntested means that the newest revision is as desired, but the tests that are to run did not.
	StateUntested State = "Untested"
	// StateDrifted means that objects differ from the manifest of the newest revision, which is as desired or was rolled
	// back to.
	StateDrifted State = "Drifted"
	// StatePending means that an action on the release runs, or was cut off.
	StatePending State = "Pending"
	// StateUninstalling means that an uninstall runs, or was cut off or failed.
	StateUninstalling State = "Uninstalling"
	// StateUninstalled means that the release is gone and its history was kept. Nobody owns such a release.
	StateUninstalled State = "Uninstalled"
	// StateUnmanaged means that the release is ours and its newest revision was made by another hand.
	StateUnmanaged State = "Unmanaged"
	// StateForeign means that the release belongs to another owner or another management cluster, or was made without this product.
	StateForeign State = "Foreign"
	// StateUnreachable means that the cluster did not answer, so that nobody knows, see [decide.Unreachable].
	StateUnreachable State = "Unreachable"
)

// Difference names something in which a release differs from what is desired.
type Difference string

const (
	// DifferenceArtifact means that another artifact is desired.
	DifferenceArtifact Difference = "artifact"
	// DifferenceValues means that other values are desired.
	DifferenceValues Difference = "values"
	// DifferenceOptions means that other options are desired.
	DifferenceOptions Difference = "options"
	// DifferencePostRender means that other changes of the rendered objects are desired.
	DifferencePostRender Difference = "post-rendering"
)

// Record is what the labels on one of Helm's release Secrets say.
type Record struct {
	// ID is that of the Secret: after an uninstallation and an installation, a revision of the same number is another one. Empty where it
	// is not known.
	ID types.UID
	// Revision is Helm's number of the revision, from 1.
	Revision int
	// Status is Helm's status of the revision, such as "deployed".
	Status string
	// Owner and UID are those of the [Desired] that the revision was made from; empty where
	// Helm was used without this package.
	Owner, UID string
	// ManagementCluster is that of the manager which made the revision, see [LabelManagementCluster]; empty where it is not known.
	ManagementCluster string
	// ArtifactDigest, ValuesDigest, OptionsDigest and PostRenderDigest are shortened digests of what the revision was made
	// from.
	ArtifactDigest, ValuesDigest, OptionsDigest, PostRenderDigest string
	// LabelledRevision is the revision for which the labels were written. Where it differs from Revision, Helm
	// copied the labels and another hand made the revision. Zero where there is none.
	LabelledRevision int
	// Failures is how many tries at the same attempt had failed before, see [LabelFailures].
	Failures int
	// RolledBackFrom is the shortened digest of the attempt that was rolled back from, empty where the revision is no
	// rollback of ours.
	RolledBackFrom string
	// RollbackFailures is how many rollbacks in a row had failed before this one.
	RollbackFailures int
	// Tested is how the tests of the revision ended, see [LabelTested]; empty where they did not run.
	Tested string
	// Interrupted says that the revision is failed because the action was cut off.
	Interrupted bool
	// Interruptions is how many tries in a row at the same attempt had been cut off before this one.
	Interruptions int
	// Unproven is a revision below that had not become healthy when its place was taken, see [LabelUnproven]; zero where none is known.
	Unproven int
	// Request is the shortened digest of the request to try that the revision answers, see [LabelRequest].
	Request string
	// Shard is that of the process that wrote the record last, see [LabelShard].
	Shard string
	// Uninstalling says that this package began to uninstall the release, see [LabelUninstalling].
	Uninstalling bool
	// KeptElsewhere says that the record is a pointer to a payload.
	KeptElsewhere bool
	// Deadline is when the action that is at work on the record ends at the latest, see [LabelDeadline]; zero where it does not say.
	Deadline time.Time
	// ChangedAt is when the record was last written, as far as its metadata tells.
	ChangedAt time.Time
}

// Observation is what Helm's storage in a cluster says about a release.
type Observation struct {
	// Records are the revisions, newest first. Empty where there is no release.
	Records []Record
}

// Newest returns the newest revision; ok is false where there is none.
func (o Observation) Newest() (newest Record, ok bool) {
	if len(o.Records) == 0 {
		return Record{}, false
	}
	return o.Records[0], true
}

// Owner returns the owner's label of the newest revision that has one, and "" where none has: Helm before 3.13
// does not carry labels over when somebody upgrades by hand.
func (o Observation) Owner() string {
	for _, record := range o.Records {
		if record.Owner != "" {
			return record.Owner
		}
	}
	return ""
}

// Authentic reports whether the labels were written for this very revision.
func (r Record) Authentic() bool {
	return r.Owner != "" && r.LabelledRevision == r.Revision
}

// Differences returns what differs between the record and what is desired.
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

// MadeFrom reports whether the record is ours and was made from what is desired.
func (r Record) MadeFrom(d Desired) bool {
	return r.Authentic() && len(r.Differences(d)) == 0
}

// IsRolledBackFrom reports whether the record is a rollback of ours from what is desired.
func (r Record) IsRolledBackFrom(d Desired) bool {
	return r.Authentic() && r.RolledBackFrom != "" && r.RolledBackFrom == AttemptLabel(d)
}

// TriedFor reports whether the record is ours and a try at what is desired, or the return from one.
func (r Record) TriedFor(d Desired) bool {
	return r.IsRolledBackFrom(d) || r.MadeFrom(d) && r.RolledBackFrom == ""
}

// IsTryOf reports whether the record was made for the owner of what is desired as a try at it, or as the return from one.
func (r Record) IsTryOf(d Desired) bool {
	return r.Owner == OwnerLabel(d.Owner) && r.TriedFor(d)
}

// answers reports whether the record is a try at what is desired that was made upon the request.
func (r Record) answers(request string, d Desired) bool {
	return request != "" && r.Request == DigestLabel(request) && r.IsTryOf(d)
}

// Attempt returns the shortened digest of the attempt that the record is one of, as [Record].RolledBackFrom has it; empty
// where the revision is not ours.
func (r Record) Attempt() string {
	if !r.Authentic() {
		return ""
	}
	return AttemptLabel(Desired{
		ArtifactDigest: r.ArtifactDigest, ValuesDigest: r.ValuesDigest, OptionsDigest: r.OptionsDigest, PostRenderDigest: r.PostRenderDigest,
	})
}

// IsDeployedFor reports whether the revision is deployed and was made for the very object that desires something.
func (r Record) IsDeployedFor(d Desired) bool {
	return release.Status(r.Status) == release.StatusDeployed && r.Authentic() && r.UID == d.UID
}

// WasCutOff reports whether the action that made the revision did not come to an end.
func (r Record) WasCutOff() bool {
	status := release.Status(r.Status)
	return status.IsPending() || status == release.StatusFailed && r.Interrupted
}

// TestsFailed reports whether the tests of this very revision ran and failed.
func (r Record) TestsFailed() bool { return r.Authentic() && r.Tested == TestedFailed }

// WasApplied reports whether the revision was once applied as a whole, whoever made it.
func (r Record) WasApplied() bool {
	status := release.Status(r.Status)
	return status == release.StatusDeployed || status == release.StatusSuperseded
}

// Worked reports whether the revision was once applied as a whole, whoever made it, and did not fail its tests.
func (r Record) Worked() bool { return r.WasApplied() && !r.TestsFailed() }

// State compares what was observed with what is desired. What only a policy or the caller can tell apart is not told
// apart: a release that is untested or drifted is in sync.
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
		// "superseded" without a successor: a record after it was deleted. "unknown": nothing better is known.
		return StateOutOfSync
	}
}

// FailuresAt returns how many tries at what is desired had failed by the time the record was last written.
func (r Record) FailuresAt(d Desired) int {
	switch {
	case r.IsRolledBackFrom(d):
		return max(r.Failures, 1)
	case !r.MadeFrom(d) || r.RolledBackFrom != "":
		// Other tries; or a rollback to what is desired now, from something else.
		return 0
	case release.Status(r.Status) == release.StatusFailed && !r.Interrupted:
		return r.Failures + 1
	case r.TestsFailed():
		return max(r.Failures, 1)
	default:
		return r.Failures
	}
}

// IsFor reports whether the very object that asks now asked for the revision.
func (r Record) IsFor(desired Desired) bool {
	return r.Authentic() && desired.UID != "" && r.UID == desired.UID
}

// HasDeadline reports whether the record says when the action that is at work on it ends at the latest. Helm, by hand, carries
// labels over.
func (r Record) HasDeadline() bool { return r.Authentic() && !r.Deadline.IsZero() }

// IsPointerUninstalledByHand reports whether the helm command was used to uninstall a release whose record is a pointer: it deletes
// nothing then.
func (r Record) IsPointerUninstalledByHand() bool { return r.KeptElsewhere && !r.Uninstalling }
