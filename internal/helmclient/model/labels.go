// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The labels on Helm's release Secrets. Newer versions of HelmOp read them years later, so the meaning of a key must
// never change.
const (
	LabelPrefix = "addons.cluster.x-k8s.io/"

	// LabelOwner holds the owner of the release, see [Desired].Owner.
	LabelOwner = LabelPrefix + "helmop"
	// LabelManagementCluster holds the management cluster of the manager that created the record. After a move, it is the
	// management cluster of the manager that took over the record, see [Desired].ManagementCluster. Records of older
	// versions of HelmOp do not have it.
	LabelManagementCluster = LabelPrefix + "management-cluster"
	// LabelArtifactDigest holds the shortened digest of the artifact of the revision.
	LabelArtifactDigest = LabelPrefix + "artifact-digest"
	// LabelValuesDigest holds the shortened digest of the values of the revision.
	LabelValuesDigest = LabelPrefix + "values-digest"
	// LabelOptionsDigest holds the shortened digest of the options of the revision.
	LabelOptionsDigest = LabelPrefix + "options-digest"
	// LabelRevision holds the Helm revision for which the labels were written.
	LabelRevision = LabelPrefix + "revision"
	// LabelPostRenderDigest holds the shortened digest of the post-rendering; absent without post-rendering.
	LabelPostRenderDigest = LabelPrefix + "postrender-digest"
	// LabelReleaseUID holds the UID of the object that requested the revision.
	LabelReleaseUID = LabelPrefix + "release-uid"
	// LabelFailures holds the number of failed attempts at the same [AttemptDigest] before the record was created; absent
	// if it is zero. If the tests of the revision failed, this failure is included. On the record of a rollback, it is the
	// number of attempts at the state that was rolled back.
	LabelFailures = LabelPrefix + "failures"
	// LabelRolledBackFrom holds, on records of rollbacks, the shortened [AttemptDigest] of the attempt that was rolled
	// back. The other digests on such a record belong to the target of the rollback; they are absent if HelmOp did not
	// create the target.
	LabelRolledBackFrom = LabelPrefix + "rolled-back-from"
	// LabelRollbackFailures holds the number of successive failed rollbacks before this rollback; absent if it is zero.
	LabelRollbackFailures = LabelPrefix + "rollback-failures"
	// LabelTested holds the result of the chart's tests, "passed" or "failed", or "adopted" if they do not run; absent if
	// the tests did not run yet.
	LabelTested = LabelPrefix + "tested"
	// LabelInterrupted is "true" on records that are failed because the action was interrupted; absent on other records.
	// An interruption does not show that the desired state is faulty.
	LabelInterrupted = LabelPrefix + "interrupted"
	// LabelInterruptions holds the number of successive interrupted attempts at the same state before the record was
	// created; absent if it is zero.
	LabelInterruptions = LabelPrefix + "interruptions"
	// LabelUnproven holds an older revision that HelmOp watched since its deployment, and that did not become healthy
	// before another revision replaced it; absent if no such revision is known. The revision may only have had too little
	// time: it did not fail, but it is not proven to work.
	LabelUnproven = LabelPrefix + "unproven-revision"
	// LabelRequest holds the shortened digest of the last retry request when the record was created or tested, see
	// [Past].Request; absent if there was no known request. It does not shape the revision.
	LabelRequest = LabelPrefix + "request"
	// LabelShard holds the [Desired].Shard of the process that wrote the record last; absent if the shard is empty.
	LabelShard = LabelPrefix + "shard"
	// LabelUninstalling is "true" on the record of a release that this engine uninstalls; absent if the helm command
	// uninstalls the release.
	LabelUninstalling = LabelPrefix + "uninstalling"
	// LabelNeverWorked is "true" on a record that is being uninstalled if no revision of the release ever worked; absent
	// on other records.
	LabelNeverWorked = LabelPrefix + "never-worked"
	// LabelMayHaveWorked is "true" on a record if objects of the revision may have worked before, although all records are
	// failed. There are three cases: the uninstallation of the revision was given up, the installation failed after it
	// found objects of the release, or the caller knows that the release worked, see [Past].Worked. It is absent on other
	// records.
	LabelMayHaveWorked = LabelPrefix + "may-have-worked"
	// LabelPublicValues is "true" on records whose values have no value from a Secret; absent on other records. Messages
	// may show such values.
	LabelPublicValues = LabelPrefix + "public-values"
	// LabelDeadline holds the latest end of the action that created or changed the record, in seconds since 1970. It
	// includes a margin to record the outcome. It is absent on records without a running action.
	LabelDeadline = LabelPrefix + "deadline"

	// LabelAttemptsSince holds the creation time of the first record of the same digests that failed since the last
	// success, by the clock of the API server, in seconds since 1970. Helm may have deleted this record to limit the
	// history. The label is absent on the first record.
	LabelAttemptsSince = LabelPrefix + "attempts-since"

	// LabelPayload holds the ID of the payload of a split record, see package records; absent on other records.
	LabelPayload = LabelPrefix + "payload"

	// TestedPassed is the value of LabelTested after all tests succeeded.
	TestedPassed = "passed"
	// TestedFailed is the value of LabelTested after a test failed.
	TestedFailed = "failed"
	// TestedAdopted is the value of LabelTested on a revision of another owner that HelmOp has adopted. The tests do not
	// run: a failed test would roll the release back, although there was no upgrade.
	TestedAdopted = "adopted"

	// Helm's own labels.
	HelmLabelOwner      = "owner"
	HelmLabelName       = "name"
	HelmLabelStatus     = "status"
	HelmLabelVersion    = "version"
	HelmLabelCreatedAt  = "createdAt"
	HelmLabelModifiedAt = "modifiedAt"
)

// digestLabelLength is the number of hex digits of a digest in a label. A label value has at most 63 characters, and a
// whole sha256 has 64. With 160 bits, accidental collisions are practically impossible.
const digestLabelLength = 40

// ownerHashLength is the number of hex digits that distinguish shortened owners.
const ownerHashLength = 10

// OwnerLabel returns the owner as a label value: unchanged if it is short enough, otherwise its beginning and a hash.
func OwnerLabel(owner string) string {
	if len(owner) <= validation.LabelValueMaxLength {
		return owner
	}
	sum := sha256.Sum256([]byte(owner))
	suffix := "-" + hex.EncodeToString(sum[:])[:ownerHashLength]
	return strings.TrimRight(owner[:validation.LabelValueMaxLength-len(suffix)], "-_.") + suffix
}

// DigestLabel returns a digest, with or without its "sha256:", as a label value.
func DigestLabel(digest string) string {
	hexDigits := digest
	if _, after, found := strings.Cut(digest, ":"); found {
		hexDigits = after
	}
	if len(hexDigits) > digestLabelLength {
		hexDigits = hexDigits[:digestLabelLength]
	}
	return hexDigits
}

// AttemptDigest returns one digest, as hex digits, of everything in the desired state that affects the release. All
// attempts at the same desired state have the same digest.
func AttemptDigest(d Desired) string {
	// Marshalling strings cannot fail. JSON separates the items of the list.
	data, _ := json.Marshal([]string{
		DigestLabel(d.ArtifactDigest), DigestLabel(d.ValuesDigest), DigestLabel(d.OptionsDigest),
		DigestLabel(d.PostRenderDigest),
	})
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// AttemptLabel returns the digest of the attempt as a label value.
func AttemptLabel(d Desired) string { return DigestLabel(AttemptDigest(d)) }

// DesiredLabels returns the labels for a revision made from d. LabelRevision is added when the record is created,
// because Helm assigns the number of the revision.
func DesiredLabels(d Desired) map[string]string {
	labels := OwnerLabels(d)
	labels[LabelArtifactDigest] = DigestLabel(d.ArtifactDigest)
	labels[LabelValuesDigest] = DigestLabel(d.ValuesDigest)
	labels[LabelOptionsDigest] = DigestLabel(d.OptionsDigest)
	if d.PostRenderDigest != "" {
		labels[LabelPostRenderDigest] = DigestLabel(d.PostRenderDigest)
	}
	return labels
}

// OwnerLabels returns the labels that identify the owner of a revision.
func OwnerLabels(d Desired) map[string]string {
	labels := map[string]string{LabelOwner: OwnerLabel(d.Owner), LabelReleaseUID: d.UID}
	SetText(labels, LabelShard, d.Shard)
	SetText(labels, LabelManagementCluster, OwnerLabel(d.ManagementCluster))
	return labels
}

// DigestLabels lists the labels with the digests of everything that shapes a revision.
var DigestLabels = []string{LabelArtifactDigest, LabelValuesDigest, LabelOptionsDigest, LabelPostRenderDigest}

// DigestsIn returns all digests of a revision as one text.
func DigestsIn(labels map[string]string) string {
	digests := make([]string, 0, len(DigestLabels))
	for _, key := range DigestLabels {
		digests = append(digests, labels[key])
	}
	return strings.Join(digests, "/")
}

// SetText sets a label unless the text is empty.
func SetText(labels map[string]string, key, text string) {
	if text != "" {
		labels[key] = text
	}
}

// SetCount sets a label unless the count is zero.
func SetCount(labels map[string]string, key string, count int) {
	if count > 0 {
		labels[key] = strconv.Itoa(count)
	}
}

// SetTime sets a label to a time in seconds since 1970, unless the time is zero.
func SetTime(labels map[string]string, key string, at time.Time) {
	if !at.IsZero() {
		labels[key] = strconv.FormatInt(at.Unix(), 10)
	}
}

// RecordFromLabels decodes the labels of a release Secret. ok is false if they are not labels of a Helm release.
func RecordFromLabels(labels map[string]string) (record Record, ok bool) {
	revision := countIn(labels, HelmLabelVersion)
	if labels[HelmLabelOwner] != "helm" || revision < 1 {
		return Record{}, false
	}
	return Record{
		Revision:         revision,
		Status:           labels[HelmLabelStatus],
		Owner:            labels[LabelOwner],
		UID:              labels[LabelReleaseUID],
		ArtifactDigest:   labels[LabelArtifactDigest],
		ValuesDigest:     labels[LabelValuesDigest],
		OptionsDigest:    labels[LabelOptionsDigest],
		PostRenderDigest: labels[LabelPostRenderDigest],
		LabelledRevision: countIn(labels, LabelRevision),
		Failures:         countIn(labels, LabelFailures),
		RolledBackFrom:   labels[LabelRolledBackFrom],
		RollbackFailures: countIn(labels, LabelRollbackFailures),
		Tested:           labels[LabelTested],
		Interrupted:      labels[LabelInterrupted] == "true",
		Interruptions:    countIn(labels, LabelInterruptions),
		Unproven:         countIn(labels, LabelUnproven),
		Request:          labels[LabelRequest],
		Shard:            labels[LabelShard],
		Uninstalling:     labels[LabelUninstalling] == "true",
		NeverWorked:      labels[LabelNeverWorked] == "true",
		MayHaveWorked:    labels[LabelMayHaveWorked] == "true",
		IsPointer:        labels[LabelPayload] != "",

		ManagementCluster: labels[LabelManagementCluster],
		Deadline:          timeIn(labels, LabelDeadline),
		AttemptsSince:     timeIn(labels, LabelAttemptsSince),
		WrittenAt:         later(timeIn(labels, HelmLabelCreatedAt), timeIn(labels, HelmLabelModifiedAt)),
	}, true
}

// timeIn returns the time in a label; zero if the label is absent or invalid.
func timeIn(labels map[string]string, key string) time.Time {
	seconds, err := strconv.ParseInt(labels[key], 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Earlier returns the earlier of two times. A zero time is unknown, so it does not count.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// countIn returns the number in a label; zero if the label is absent or invalid.
func countIn(labels map[string]string, key string) int {
	count, err := strconv.Atoi(labels[key])
	if err != nil || count < 0 {
		return 0
	}
	return count
}
