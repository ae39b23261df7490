// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"fmt"
	"strconv"
	"strings"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// maxQuotedPin is the maximum length of an annotation in a message, in bytes.
const maxQuotedPin = 32

// Pin is the pin of a release, with all inputs of the decision.
type Pin struct {
	HelmOp    *addonsv1.HelmOp
	Revisions revisions.List

	// Cluster is the title of the Cluster.
	Cluster string

	// Child is the pinned HelmOpRelease.
	Child *addonsv1.HelmOpRelease

	// Own is the spec of the release under its current revision; nil if it cannot be rendered.
	Own *addonsv1.HelmOpReleaseSpec

	// Number is the number of the revision to which the release is pinned; 0 if the annotation has no number.
	Number int64

	// Release is the release under the pinned revision; nil if it cannot be rendered.
	Release *rollout.Release
}

// WhyNot returns an error if a release cannot have the HelmOp revision to which it is pinned. It returns nil if the
// release can have it or already has it.
func WhyNot(p *Pin) error {
	number, has := p.Number, apiutil.RevisionOf(p.Child)
	revision := p.Revisions.Numbered(number)
	refused := func(format string, args ...any) error {
		return fmt.Errorf("the annotation %s of HelmOpRelease %s has no effect: %s; the release stays at "+
			"HelmOp revision %d until you correct or remove the annotation", addonsv1.PinnedRevisionAnnotation,
			p.Child.Name, fmt.Sprintf(format, args...), has)
	}
	switch {
	case number == has && number != 0 && p.Own != nil &&
		rolloutstate.Identity(p.Own) != rolloutstate.Identity(&p.Child.Spec):
		return fmt.Errorf("the Cluster has changed, so that its release has another name or namespace: %s; the annotation "+
			"%s of HelmOpRelease %s keeps the release %s until you remove the annotation", rolloutstate.Identity(p.Own),
			addonsv1.PinnedRevisionAnnotation, p.Child.Name, rolloutstate.Identity(&p.Child.Spec))
	case number == has && number != 0:
		return nil
	case number == 0:
		return refused("its value %q is not the number of a HelmOp revision",
			apiutil.Truncate(p.Child.Annotations[addonsv1.PinnedRevisionAnnotation], maxQuotedPin))
	case revision == nil:
		return refused("there is no HelmOp revision %d; there are %s", number, numbersOf(p.Revisions))
	case p.Release == nil:
		return refused("HelmOp revision %d cannot be rendered for this Cluster any more", number)
	case rolloutstate.Identity(&p.Child.Spec) != p.Release.Identity:
		return refused("the release has another name or namespace in HelmOp revision %d: %s", number, p.Release.Identity)
	case approval.IsRequired(p.HelmOp) && !approval.MayPin(approval.RevisionOf(revision), p.Cluster, p.Release):
		return refused("HelmOp revision %d was not rolled out completely and is not approved for this release", number)
	default:
		return nil
	}
}

// numbersOf returns the numbers of HelmOp revisions as a text.
func numbersOf(known revisions.List) string {
	numbers := make([]string, 0, len(known))
	for _, revision := range known {
		numbers = append(numbers, strconv.FormatInt(revision.Spec.Number, 10))
	}
	return strings.Join(numbers, ", ")
}
