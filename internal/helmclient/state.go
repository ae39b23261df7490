/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"time"

	"helm.sh/helm/v3/pkg/release"
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
	// StateFailed means that the newest revision is ours, made from what is desired, and failed.
	StateFailed State = "Failed"
	// StatePending means that an action on the release runs, or was cut off.
	StatePending State = "Pending"
	// StateUninstalling means that an uninstall runs, or was cut off or failed.
	StateUninstalling State = "Uninstalling"
	// StateUninstalled means that the release is gone and its history was kept. Nobody owns such a release.
	StateUninstalled State = "Uninstalled"
	// StateUnmanaged means that the release is ours and its newest revision was made by another hand.
	StateUnmanaged State = "Unmanaged"
	// StateForeign means that the release belongs to another owner, or was made without this product.
	StateForeign State = "Foreign"
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
)

// Record is what the labels on one of Helm's release Secrets say.
type Record struct {
	// Revision is Helm's number of the revision, from 1.
	Revision int
	// Status is Helm's status of the revision, such as "deployed".
	Status string
	// Owner and UID are those of the [Desired] that the revision was made from; empty where
	// Helm was used without this package.
	Owner, UID string
	// ArtifactDigest, ValuesDigest and OptionsDigest are shortened digests of what the revision was made from.
	ArtifactDigest, ValuesDigest, OptionsDigest string
	// LabelledRevision is the revision for which the labels were written. Where it differs from Revision, Helm
	// copied the labels and another hand made the revision. Zero where there is none.
	LabelledRevision int
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

// authentic reports whether the labels were written for this very revision.
func (r Record) authentic() bool {
	return r.Owner != "" && r.LabelledRevision == r.Revision
}

// differences returns what differs between the record and what is desired.
func (r Record) differences(d Desired) []Difference {
	var differ []Difference
	if r.ArtifactDigest != digestLabel(d.ArtifactDigest) {
		differ = append(differ, DifferenceArtifact)
	}
	if r.ValuesDigest != digestLabel(d.ValuesDigest) {
		differ = append(differ, DifferenceValues)
	}
	if r.OptionsDigest != digestLabel(d.OptionsDigest) {
		differ = append(differ, DifferenceOptions)
	}
	return differ
}

// State compares what was observed with what is desired.
func (o Observation) State(d Desired) State {
	newest, ok := o.Newest()
	status := release.Status(newest.Status)
	switch {
	case !ok:
		return StateAbsent
	case status == release.StatusUninstalled:
		return StateUninstalled
	case o.Owner() != ownerLabel(d.Owner):
		return StateForeign
	case status == release.StatusUninstalling:
		return StateUninstalling
	case status.IsPending():
		return StatePending
	case !newest.authentic():
		return StateUnmanaged
	case len(newest.differences(d)) > 0:
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
