// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// What the status has room for, in bytes.
const (
	maxMediaType          = 255
	maxProvenanceSource   = 512
	maxProvenanceRevision = 256
	maxProvenanceCreated  = 64
)

// lookupResult is what the conditions of the HelmOp say of one reference.
type lookupResult struct {
	// resolved is the condition Resolved. Without a status, the condition of the HelmOp stays as it is.
	resolved metav1.Condition

	// verified is the condition Verified; nil if spec.source.verify is not set. isFresh is true if the signatures were
	// checked now, and not taken from the memory of an earlier check.
	verified *metav1.Condition
	isFresh  bool
}

// resolvingResult is the result while the registry has not answered. The last known artifact stays meanwhile, and so
// does the error of the last lookup.
func resolvingResult(helmOp *addonsv1.HelmOp, asked *lookup) lookupResult {
	if asked.hasFailedBefore {
		return asked.lastResult
	}
	var said lookupResult
	said.verified, said.isFresh = verifiedCondition(helmOp, asked, resolved{}, errResolving)
	if asked.known == nil {
		said.resolved = metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: addonsv1.ResolvingReason,
			Message: errResolving.Error() + " for " + helmOp.Spec.Source.URL,
		}
	}
	return said
}

// updateArtifact stores the artifact to which a reference was resolved, with an Event if it is another one.
func (r *Reconciler) updateArtifact(helmOp *addonsv1.HelmOp, asked *lookup, found resolved) {
	status := artifactStatus(helmOp, found, asked)
	status.ResolvedAt = metav1.NewTime(r.now())
	isNews := asked.known == nil || asked.known.ResolvedArtifact != status.ResolvedArtifact
	if !isNews {
		status.ResolvedAt = asked.known.ResolvedAt
	}
	asked.known = status
	if isNews {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.ArtifactResolvedEvent, "Resolve",
			asked.named(describeArtifact(&status.ResolvedArtifact)))
	}
}

// named puts the field of the reference before a message, except for spec.source.
func (a *lookup) named(message string) string {
	if a.field == "" {
		return message
	}
	return a.field + ": " + message
}

// reportResolution writes the results of all lookups into the status, the conditions and the scope.
func (r *Reconciler) reportResolution(scope *helmOpScope, lookups []*lookup) {
	helmOp := scope.helmOp
	others := []addonsv1.ReferencedArtifact(nil)
	scope.artifacts = map[addonsv1.ArtifactReference]*addonsv1.ResolvedArtifact{}
	scope.unresolved = map[addonsv1.ArtifactReference]metav1.Condition{}
	for i, asked := range lookups {
		if asked.known != nil {
			scope.artifacts[asked.key.ref] = &asked.known.ResolvedArtifact
		} else {
			missing := asked.result.resolved
			missing.Message = asked.named(missing.Message)
			scope.unresolved[asked.key.ref] = missing
		}
		switch shown := asked.known; {
		case i == 0 && shown != nil:
			helmOp.Status.Artifact = shown
		case i > 0:
			if shown == nil {
				// Keep the artifact of before spec.source changed.
				shown = referencedArtifact(&helmOp.Status, asked.key.ref)
			}
			if shown != nil {
				others = append(others, addonsv1.ReferencedArtifact{Reference: asked.key.ref, ArtifactStatus: *shown})
			}
		}
	}
	scope.artifact = scope.artifacts[helmOp.Spec.Source.Ref]
	if scope.variantsErr == nil {
		helmOp.Status.Artifacts = others
	}
	r.reportVerification(helmOp, allVerified(helmOp, lookups))
	resolved := allResolved(helmOp, lookups, r.raisedInterval(helmOp))
	changed := report.SetCondition(helmOp, addonsv1.ResolvedCondition, resolved.Status, resolved.Reason, resolved.Message)
	if changed && resolved.Status == metav1.ConditionFalse {
		r.warn(helmOp, resolved.Reason, "Resolve", resolved.Message)
	}
}

// allResolved is the condition Resolved for all references. A reference that is looked up for the first time comes
// before one that failed: the HelmOp has no new revision until there is an answer, and dependents wait for that
// (dependencies.Unsettled). The note is added to the message of success.
func allResolved(helmOp *addonsv1.HelmOp, lookups []*lookup, note string) metav1.Condition {
	first := map[metav1.ConditionStatus]*lookup{}
	count := map[metav1.ConditionStatus]int{}
	for _, asked := range lookups {
		status := asked.result.resolved.Status
		if first[status] == nil {
			first[status] = asked
		}
		count[status]++
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionUnknown, metav1.ConditionFalse} {
		if worst := first[status]; worst != nil {
			said := worst.result.resolved
			said.Message = worst.named(said.Message) + andOthers(count[status]-1, "; so it is with %d more")
			return said
		}
	}
	if before := conditions.Get(helmOp, addonsv1.ResolvedCondition); before != nil && first[""] != nil {
		return *before
	}
	said := metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.ResolvedReason}
	if known := lookups[0].known; known != nil {
		said.Message = describeArtifact(&known.ResolvedArtifact) +
			andOthers(len(lookups)-1, "; %d more are resolved, see status.artifacts") + note
	}
	return said
}

// allVerified is the condition Verified for all references; nil if spec.source.verify is not set. A refusal stays until
// the signatures of all artifacts were checked again: neither a restart nor a lookup in progress ends it.
func allVerified(helmOp *addonsv1.HelmOp, lookups []*lookup) *metav1.Condition {
	if helmOp.Spec.Source.Verify == nil {
		return nil
	}
	first := map[metav1.ConditionStatus]*lookup{}
	isFresh := true
	for _, asked := range lookups {
		if asked.result.verified == nil {
			continue
		}
		if status := asked.result.verified.Status; first[status] == nil {
			first[status] = asked
		}
		isFresh = isFresh && asked.result.isFresh
	}
	before := conditions.Get(helmOp, addonsv1.VerifiedCondition)
	if first[metav1.ConditionFalse] == nil && !isFresh && isRefusal(before) &&
		before.ObservedGeneration == helmOp.Generation {
		return before
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue} {
		if shown := first[status]; shown != nil {
			said := *shown.result.verified
			said.Message = shown.named(said.Message)
			if status == metav1.ConditionTrue {
				said.Message += andOthers(len(lookups)-1, "; %d more are signed as demanded, too")
			}
			return &said
		}
	}
	return before
}

// andOthers is a text with a number, empty if that is 0.
func andOthers(n int, format string) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(format, n)
}

// artifactOfSource finds the artifact of a source by its digest in the whole status: a reference may have moved from an
// override to spec.source. It is nil if there is none.
func artifactOfSource(status *addonsv1.HelmOpStatus, source string) *addonsv1.ArtifactStatus {
	if known := status.Artifact; known != nil && known.SourceDigest == source {
		return known.DeepCopy()
	}
	for i := range status.Artifacts {
		if known := &status.Artifacts[i].ArtifactStatus; known.SourceDigest == source {
			return known.DeepCopy()
		}
	}
	return nil
}

// referencedArtifact finds the artifact of a reference beside spec.source in the status, whatever the source was; nil
// if there is none.
func referencedArtifact(status *addonsv1.HelmOpStatus, ref addonsv1.ArtifactReference) *addonsv1.ArtifactStatus {
	for i := range status.Artifacts {
		if status.Artifacts[i].Reference == ref {
			return &status.Artifacts[i].ArtifactStatus
		}
	}
	return nil
}

// artifactStatus is the status of a resolved artifact.
func artifactStatus(helmOp *addonsv1.HelmOp, found resolved, asked *lookup) *addonsv1.ArtifactStatus {
	artifact := found.artifact
	status := &addonsv1.ArtifactStatus{
		ResolvedArtifact: apiutil.Selected(&helmOp.Spec.Source),
		MediaType:        apiutil.Truncate(artifact.MediaType, maxMediaType),
		Provenance:       found.provenance.DeepCopy(),
		SourceDigest:     asked.source,
	}
	status.URL, status.Digest, status.Tag, status.Version = artifact.URL, artifact.Digest, artifact.Tag, artifact.Version
	// The format of a chart is left out, so that naming it in the spec changes no release.
	status.Format = addonsv1.ArtifactFormat(found.format)
	if found.format == bundle.FormatHelmChart {
		status.Format = ""
	}
	if found.signed != nil {
		status.Verification = &addonsv1.VerificationStatus{
			Provider:     addonsv1.VerificationProvider(asked.policy.Provider),
			Signers:      signers(found.signed.Signers),
			PolicyDigest: asked.policy.Digest(),
		}
	}
	return status
}

// provenance is the origin that the annotations of an artifact name; nil if they name none. Credentials in URLs are
// removed: more users can read the status than the artifact.
func provenance(annotations map[string]string) *addonsv1.Provenance {
	source, _ := bundle.WithoutCredential(annotations[ocispec.AnnotationSource])
	said := addonsv1.Provenance{
		Source:   apiutil.Truncate(source, maxProvenanceSource),
		Revision: apiutil.Truncate(annotations[ocispec.AnnotationRevision], maxProvenanceRevision),
		Created:  apiutil.Truncate(annotations[ocispec.AnnotationCreated], maxProvenanceCreated),
	}
	if said == (addonsv1.Provenance{}) {
		return nil
	}
	return &said
}

func describeArtifact(artifact *addonsv1.ResolvedArtifact) string {
	subject := artifact.URL
	if artifact.Tag != "" {
		subject += ":" + artifact.Tag
	}
	if artifact.Version != "" && artifact.Version != artifact.Tag {
		return fmt.Sprintf("%s is version %s, %s", subject, artifact.Version, artifact.Digest)
	}
	return fmt.Sprintf("%s is %s", subject, artifact.Digest)
}

// artifactOf returns the artifact of a reference of the spec. The error is a *reasons.UnresolvedError if the reference
// is not resolved.
func (s *helmOpScope) artifactOf(ref addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error) {
	if artifact := s.artifacts[ref]; artifact != nil {
		return artifact, nil
	}
	if why, ok := s.unresolved[ref]; ok {
		return nil, &reasons.UnresolvedError{Reason: why.Reason, Message: why.Message}
	}
	return nil, errors.New("the reference is not one of the spec")
}
