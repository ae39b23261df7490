// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
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
	// StateOutOfSync means that HelmOp made the newest revision from another state than the desired one, or that it is no
	// longer the deployed one.
	StateOutOfSync State = "OutOfSync"
	// StateFailed means that HelmOp made the newest revision from the desired state and it, or its tests, failed. It also
	// means a failed rollback from the desired state.
	StateFailed State = "Failed"
	// StateRolledBack means that the newest revision is the rollback after a failed attempt at the desired state.
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
	// StateUninstalled means that the release is uninstalled and its history was kept. Such a release has no owner.
	StateUninstalled State = "Uninstalled"
	// StateUnmanaged means that the release belongs to the owner, but HelmOp did not make its newest revision.
	StateUnmanaged State = "Unmanaged"
	// StateForeign means that the release belongs to another owner or management cluster, or was not installed by HelmOp.
	StateForeign State = "Foreign"
	// StateUnreachable means that the cluster did not respond, so the state is unknown, see [decide.Unreachable].
	StateUnreachable State = "Unreachable"
)

// Difference is one aspect in which a release differs from the desired state.
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

// Record holds the labels of one of Helm's release Secrets.
type Record struct {
	// ID is the UID of the Secret. It distinguishes revisions of the same number before and after a reinstallation. Empty
	// if it is unknown.
	ID types.UID
	// Revision is Helm's number of the revision, from 1.
	Revision int
	// Status is Helm's status of the revision, such as "deployed".
	Status string
	// Owner and UID are those of the [Desired] that the revision was made from; empty where
	// Helm was used without this package.
	Owner, UID string
	// ManagementCluster is the management cluster of the manager that made the revision, see [LabelManagementCluster];
	// empty if it is unknown.
	ManagementCluster string
	// ArtifactDigest, ValuesDigest, OptionsDigest and PostRenderDigest are the shortened digests of what the revision was
	// made from.
	ArtifactDigest, ValuesDigest, OptionsDigest, PostRenderDigest string
	// LabelledRevision is the revision for which the labels were written. If it differs from Revision, Helm copied the
	// labels, and HelmOp did not make the revision. Zero if the label is absent.
	LabelledRevision int
	// Failures is how many tries at the same attempt had failed before, see [LabelFailures].
	Failures int
	// RolledBackFrom is the shortened digest of the attempt that was rolled back; empty if the revision is not a rollback
	// by HelmOp.
	RolledBackFrom string
	// RollbackFailures is how many rollbacks in a row had failed before this one.
	RollbackFailures int
	// Tested is how the tests of the revision ended, see [LabelTested]; empty where they did not run.
	Tested string
	// Interrupted means that the revision is failed because its action was interrupted.
	Interrupted bool
	// Interruptions is how many tries in a row at the same attempt had been cut off before this one.
	Interruptions int
	// Unproven is an older revision that had not become healthy when it was replaced, see [LabelUnproven]; zero if none is
	// known.
	Unproven int
	// Request is the shortened digest of the request to try that the revision answers, see [LabelRequest].
	Request string
	// Shard is that of the process that wrote the record last, see [LabelShard].
	Shard string
	// Uninstalling means that this package began to uninstall the release, see [LabelUninstalling].
	Uninstalling bool
	// KeptElsewhere means that the record is a pointer to a payload.
	KeptElsewhere bool
	// Deadline is the latest end of the action that is at work on the record, see [LabelDeadline]; zero if it is unknown.
	Deadline time.Time
	// ChangedAt is when the record was last written, according to its metadata.
	ChangedAt time.Time
}

// Observation is the content of Helm's storage in a cluster for one release.
type Observation struct {
	// Records are the revisions, newest first. Empty where there is no release.
	Records []Record
}

// Newest returns the newest revision; ok is false if there is none.
func (o Observation) Newest() (newest Record, ok bool) {
	if len(o.Records) == 0 {
		return Record{}, false
	}
	return o.Records[0], true
}

// Owner returns the owner on the newest record that names one, and "" if none does: Helm before 3.13 does not copy
// labels when a person upgrades the release.
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

// MadeFrom reports whether HelmOp made the record from the desired state.
func (r Record) MadeFrom(d Desired) bool {
	return r.Authentic() && len(r.Differences(d)) == 0
}

// IsRolledBackFrom reports whether the record is a rollback by HelmOp from the desired state.
func (r Record) IsRolledBackFrom(d Desired) bool {
	return r.Authentic() && r.RolledBackFrom != "" && r.RolledBackFrom == AttemptLabel(d)
}

// TriedFor reports whether the record is an attempt by HelmOp at the desired state, or a rollback from one.
func (r Record) TriedFor(d Desired) bool {
	return r.IsRolledBackFrom(d) || r.MadeFrom(d) && r.RolledBackFrom == ""
}

// IsTryOf reports whether the record was made for the owner as an attempt at the desired state, or as a rollback from
// one.
func (r Record) IsTryOf(d Desired) bool {
	return r.Owner == OwnerLabel(d.Owner) && r.TriedFor(d)
}

// answers reports whether the record is an attempt at the desired state that was made because of the request.
func (r Record) answers(request string, d Desired) bool {
	return request != "" && r.Request == DigestLabel(request) && r.IsTryOf(d)
}

// Attempt returns the shortened digest of the record's attempt, as in [Record].RolledBackFrom; empty if HelmOp did not
// make the revision.
func (r Record) Attempt() string {
	if !r.Authentic() {
		return ""
	}
	return AttemptLabel(Desired{
		ArtifactDigest: r.ArtifactDigest, ValuesDigest: r.ValuesDigest, OptionsDigest: r.OptionsDigest,
		PostRenderDigest: r.PostRenderDigest,
	})
}

// IsDeployedFor reports whether the revision is deployed and was made for the very object that desires something.
func (r Record) IsDeployedFor(d Desired) bool {
	return release.Status(r.Status) == release.StatusDeployed && r.Authentic() && r.UID == d.UID
}

// WasCutOff reports whether the action that made the revision did not end.
func (r Record) WasCutOff() bool {
	status := release.Status(r.Status)
	return status.IsPending() || status == release.StatusFailed && r.Interrupted
}

// TestsFailed reports whether the tests of this very revision ran and failed.
func (r Record) TestsFailed() bool { return r.Authentic() && r.Tested == TestedFailed }

// WasApplied reports whether the revision was once applied completely, whatever made it.
func (r Record) WasApplied() bool {
	status := release.Status(r.Status)
	return status == release.StatusDeployed || status == release.StatusSuperseded
}

// Worked reports whether the revision was once applied completely, whatever made it, and did not fail its tests.
func (r Record) Worked() bool { return r.WasApplied() && !r.TestsFailed() }

// State compares the observed with the desired state. It cannot detect what only a policy or the caller knows: an
// untested or drifted release is in sync.
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

// FailuresAt returns the number of failed attempts at the desired state when the record was last written.
func (r Record) FailuresAt(d Desired) int {
	switch {
	case r.IsRolledBackFrom(d):
		return max(r.Failures, 1)
	case !r.MadeFrom(d) || r.RolledBackFrom != "":
		// The record is an attempt at another state, or a rollback from another state to the desired one.
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

// HasDeadline reports whether the record has the latest end of the action that is at work on it. A record that the helm
// command made may have a copied label, which does not count.
func (r Record) HasDeadline() bool { return r.Authentic() && !r.Deadline.IsZero() }

// IsPointerUninstalledByHand reports whether the helm command uninstalled a release whose record is a pointer. It
// deletes nothing in that case.
func (r Record) IsPointerUninstalledByHand() bool { return r.KeptElsewhere && !r.Uninstalling }
