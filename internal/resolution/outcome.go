// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// Outcome is the result of the resolution of all references of a HelmOp.
type Outcome struct {
	// Artifact is the artifact of spec.source; nil if the current source is not resolved.
	Artifact *addonsv1.ResolvedArtifact

	// Changes are texts about references that now resolve to another artifact than before.
	Changes []string

	// FoundBegan and FoundEnded are the start and the end of the last lookup of spec.source if it found another artifact
	// than before; otherwise zero.
	FoundBegan, FoundEnded time.Time

	// RequeueAfter is the time until the next lookup is due; 0 means never.
	RequeueAfter time.Duration

	// artifacts holds the artifacts of all references. unresolved holds the reasons for references without an artifact.
	artifacts  map[addonsv1.ArtifactReference]*addonsv1.ResolvedArtifact
	unresolved map[addonsv1.ArtifactReference]metav1.Condition

	// source is the new status.artifact; nil keeps the old one. others is the new status.artifacts if hasOthers is true.
	source    *addonsv1.ArtifactStatus
	others    []addonsv1.ReferencedArtifact
	hasOthers bool

	// resolved and verified are the conditions. verified is nil if spec.source.verify is not set.
	resolved metav1.Condition
	verified *metav1.Condition

	// request is the value of the annotation that requested the lookups; nil if no lookup ended.
	request *string
}

// ArtifactOf returns the artifact of a reference of the spec. The error is a *reasons.UnresolvedError if the reference
// is not resolved.
func (o *Outcome) ArtifactOf(ref addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error) {
	if artifact := o.artifacts[ref]; artifact != nil {
		return artifact, nil
	}
	if why, ok := o.unresolved[ref]; ok {
		return nil, &reasons.UnresolvedError{Reason: why.Reason, Message: why.Message}
	}
	return nil, errors.New("the reference is not one of the spec")
}

// HasArtifacts reports whether at least one reference is resolved.
func (o *Outcome) HasArtifacts() bool { return len(o.artifacts) > 0 }

// IsResolving reports whether a reference is being resolved for the first time. Callers must wait for this lookup:
// otherwise, they would create a revision, and another one moments later.
func (o *Outcome) IsResolving() bool {
	for _, missing := range o.unresolved {
		if missing.Status == metav1.ConditionUnknown {
			return true
		}
	}
	return false
}

// WriteTo writes the outcome into the status of the HelmOp and its conditions Resolved and Verified. It reports whether
// the HelmOp has just become verified, and whether its resolution has just begun to fail.
func (o *Outcome) WriteTo(helmOp *addonsv1.HelmOp) (isNewlyVerified, hasNewlyFailed bool) {
	if o.source != nil {
		helmOp.Status.Artifact = o.source
	}
	if o.hasOthers {
		helmOp.Status.Artifacts = o.others
	}
	if o.request != nil {
		helmOp.Status.LastResolveRequest = *o.request
	}
	if o.verified == nil {
		conditions.Delete(helmOp, addonsv1.VerifiedCondition)
	} else {
		changed := report.SetCondition(helmOp, addonsv1.VerifiedCondition, o.verified.Status, o.verified.Reason,
			o.verified.Message)
		isNewlyVerified = changed && o.verified.Status == metav1.ConditionTrue
	}
	changed := report.SetCondition(helmOp, addonsv1.ResolvedCondition, o.resolved.Status, o.resolved.Reason,
		o.resolved.Message)
	return isNewlyVerified, changed && o.resolved.Status == metav1.ConditionFalse
}

// retryWithin schedules the next lookup after a delay or earlier. A delay of 0 has no effect.
func (o *Outcome) retryWithin(delay time.Duration) {
	o.RequeueAfter = requeue.Sooner(o.RequeueAfter, delay)
}
