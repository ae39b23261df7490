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
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The labels on Helm's release Secrets. They are read back after years by newer versions of this code: a key is never
// given another meaning.
const (
	labelPrefix = "addons.cluster.x-k8s.io/"

	// LabelOwner holds the owner of the release, see [Desired].Owner.
	LabelOwner = labelPrefix + "helmop"
	// LabelArtifactDigest holds the shortened digest of the artifact that the revision was made from.
	LabelArtifactDigest = labelPrefix + "artifact-digest"
	// LabelValuesDigest holds the shortened digest of the values that the revision was made from.
	LabelValuesDigest = labelPrefix + "values-digest"
	// LabelOptionsDigest holds the shortened digest of the options that the revision was made with.
	LabelOptionsDigest = labelPrefix + "options-digest"
	// LabelRevision holds the revision for which the labels were written.
	LabelRevision = labelPrefix + "revision"
	// LabelReleaseUID holds the UID of the object that asked for the revision.
	LabelReleaseUID = labelPrefix + "release-uid"

	// Helm's own labels.
	helmLabelOwner      = "owner"
	helmLabelName       = "name"
	helmLabelStatus     = "status"
	helmLabelVersion    = "version"
	helmLabelCreatedAt  = "createdAt"
	helmLabelModifiedAt = "modifiedAt"
)

// digestLabelLength is the number of hex digits of a digest in a label. A label value holds at most 63 characters, a
// whole sha256 has 64; 160 bits are beyond any accidental collision.
const digestLabelLength = 40

// ownerHashLength is the number of hex digits that keep shortened owners apart.
const ownerHashLength = 10

// ownerLabel returns the owner as a label value: unchanged where it is short enough, else its beginning and a hash.
func ownerLabel(owner string) string {
	if len(owner) <= validation.LabelValueMaxLength {
		return owner
	}
	sum := sha256.Sum256([]byte(owner))
	suffix := "-" + hex.EncodeToString(sum[:])[:ownerHashLength]
	return strings.TrimRight(owner[:validation.LabelValueMaxLength-len(suffix)], "-_.") + suffix
}

// digestLabel returns a digest, with or without its "sha256:", as a label value.
func digestLabel(digest string) string {
	hexDigits := digest
	if _, after, found := strings.Cut(digest, ":"); found {
		hexDigits = after
	}
	if len(hexDigits) > digestLabelLength {
		hexDigits = hexDigits[:digestLabelLength]
	}
	return hexDigits
}

// desiredLabels returns the labels for a revision made from d. The revision itself is added when the record is
// created, since only Helm knows its number.
func desiredLabels(d Desired) map[string]string {
	return map[string]string{
		LabelOwner:          ownerLabel(d.Owner),
		LabelArtifactDigest: digestLabel(d.ArtifactDigest),
		LabelValuesDigest:   digestLabel(d.ValuesDigest),
		LabelOptionsDigest:  digestLabel(d.OptionsDigest),
		LabelReleaseUID:     d.UID,
	}
}

// recordFromLabels reads one release Secret's labels; ok is false where they are not those of a Helm release.
func recordFromLabels(labels map[string]string) (record Record, ok bool) {
	if labels[helmLabelOwner] != "helm" {
		return Record{}, false
	}
	revision, err := strconv.Atoi(labels[helmLabelVersion])
	if err != nil || revision < 1 {
		return Record{}, false
	}
	labelled, err := strconv.Atoi(labels[LabelRevision])
	if err != nil {
		labelled = 0
	}
	return Record{
		Revision:         revision,
		Status:           labels[helmLabelStatus],
		Owner:            labels[LabelOwner],
		UID:              labels[LabelReleaseUID],
		ArtifactDigest:   labels[LabelArtifactDigest],
		ValuesDigest:     labels[LabelValuesDigest],
		OptionsDigest:    labels[LabelOptionsDigest],
		LabelledRevision: labelled,
	}, true
}
