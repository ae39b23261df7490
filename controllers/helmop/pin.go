// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// maxQuotedPin bounds how much of an annotation a message quotes, in bytes.
const maxQuotedPin = 32

// renderPinned renders a Cluster that a user has pinned to a HelmOp revision: under that revision, and under the
// revision that it has. While it is not known whether the pin can be carried out, the pin is not refused, and the
// Cluster keeps what it has.
func (r *Reconciler) renderPinned(ctx context.Context, scope *helmOpScope, c *clusterScope) error {
	number, _ := apiutil.PinOf(c.child)
	c.own = r.renderPast(ctx, scope, apiutil.RevisionOf(c.child), c)
	var pinned *addonsv1.HelmOpReleaseSpec
	switch number {
	case 0:
	case apiutil.RevisionOf(c.child):
		// The pin is carried out, whether or not the revision can be rendered now.
		pinned = c.own
	default:
		if pinned, c.err = r.tryPast(ctx, scope, number, c); c.err != nil {
			scope.retryRendering(c.err)
			return ctx.Err()
		}
	}
	release, err := rolloutstate.Release(pinned)
	if err != nil {
		return err
	}
	if c.pinErr = whyNotPinned(scope, c, number, release); c.pinErr == nil {
		c.pinned = pinned
	}
	return nil
}

// whyNotPinned returns why a release cannot have the HelmOp revision to which it is pinned; nil if it can, or has it.
// release is the release under that revision, which has a number; nil if the revision cannot be rendered.
func whyNotPinned(scope *helmOpScope, c *clusterScope, number int64, release *rollout.Release) error {
	revision := scope.revision(number)
	refused := func(format string, args ...any) error {
		return fmt.Errorf("the annotation %s of HelmOpRelease %s has no effect: %s; the release stays at "+
			"HelmOp revision %d until you correct or remove the annotation", addonsv1.PinnedRevisionAnnotation,
			c.child.Name, fmt.Sprintf(format, args...), apiutil.RevisionOf(c.child))
	}
	switch {
	case number == apiutil.RevisionOf(c.child) && number != 0 && c.own != nil &&
		rolloutstate.Identity(c.own) != rolloutstate.Identity(&c.child.Spec):
		return fmt.Errorf("the Cluster has changed, so that its release has another name or namespace: %s; the annotation "+
			"%s of HelmOpRelease %s keeps the release %s until you remove the annotation", rolloutstate.Identity(c.own),
			addonsv1.PinnedRevisionAnnotation, c.child.Name, rolloutstate.Identity(&c.child.Spec))
	case number == apiutil.RevisionOf(c.child) && number != 0:
		return nil
	case number == 0:
		return refused("its value %q is not the number of a HelmOp revision",
			apiutil.Truncate(c.child.Annotations[addonsv1.PinnedRevisionAnnotation], maxQuotedPin))
	case revision == nil:
		return refused("there is no HelmOp revision %d; there are %s", number, numbersOf(scope.revisions))
	case release == nil:
		return refused("HelmOp revision %d cannot be rendered for this Cluster any more", number)
	case rolloutstate.Identity(&c.child.Spec) != release.Identity:
		return refused("the release has another name or namespace in HelmOp revision %d: %s", number, release.Identity)
	case approval.IsRequired(scope.helmOp) && !approval.MayPin(approvalOf(revision), c.name, release):
		return refused("HelmOp revision %d was not rolled out completely and is not approved for this release", number)
	default:
		return nil
	}
}

// numbersOf returns the numbers of some HelmOp revisions as a list.
func numbersOf(revisions []*addonsv1.HelmOpRevision) string {
	numbers := make([]string, 0, len(revisions))
	for _, revision := range revisions {
		numbers = append(numbers, strconv.FormatInt(revision.Spec.Number, 10))
	}
	return strings.Join(numbers, ", ")
}
