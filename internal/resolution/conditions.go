// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"fmt"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// These are the limits of the status, in bytes.
const (
	maxMediaType          = 255
	maxProvenanceSource   = 512
	maxProvenanceRevision = 256
	maxProvenanceCreated  = 64
)

// lookupResult has the conditions for one reference of a HelmOp.
type lookupResult struct {
	// resolved is the condition Resolved. If it has no status, the condition of the HelmOp does not change.
	resolved metav1.Condition

	// verified is the condition Verified; nil if spec.source.verify is not set. isFresh is true if the signatures were
	// checked in this pass. It is false if the result of an earlier check was used.
	verified *metav1.Condition
	isFresh  bool

	// began and ended are the times of a lookup that found another artifact than before; zero for other lookups.
	began, ended time.Time
}

// resolvingResult returns the result while the registry has not answered. It keeps the last known artifact and the
// error of the last lookup.
func resolvingResult(helmOp *addonsv1.HelmOp, l *lookup) lookupResult {
	if l.hasFailedBefore {
		return l.lastResult
	}
	var result lookupResult
	result.verified, result.isFresh = verifiedCondition(helmOp, l, resolved{}, errResolving)
	if l.known == nil {
		result.resolved = metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: addonsv1.ResolvingReason,
			Message: fmt.Sprintf("Resolving %s: %s", apiutil.ArtifactURL(&helmOp.Spec.Source), errResolving),
		}
	}
	return result
}

// updateArtifact stores the artifact to which a reference was resolved, and notes whether the artifact changed.
func (p *pass) updateArtifact(l *lookup, found resolved, now time.Time) {
	status := artifactStatus(p.helmOp, found, l)
	status.ResolvedAt = metav1.NewTime(now)
	isNews := l.known == nil || l.known.ResolvedArtifact != status.ResolvedArtifact
	if !isNews {
		status.ResolvedAt = l.known.ResolvedAt
	}
	l.known = status
	if isNews {
		p.outcome.Changes = append(p.outcome.Changes, l.named(describeArtifact(&status.ResolvedArtifact)))
	}
}

// named puts the field of the reference before a message, except for spec.source.
func (a *lookup) named(message string) string {
	if a.field == "" {
		return message
	}
	return a.field + ": " + message
}

// conclude sets the outcome from the results of all lookups.
func (p *pass) conclude(lookups []*lookup, note string) {
	helmOp, outcome := p.helmOp, &p.outcome
	outcome.artifacts = map[addonsv1.ArtifactReference]*addonsv1.ResolvedArtifact{}
	outcome.unresolved = map[addonsv1.ArtifactReference]metav1.Condition{}
	for i, l := range lookups {
		if l.known != nil {
			outcome.artifacts[l.key.ref] = &l.known.ResolvedArtifact
		} else {
			missing := l.result.resolved
			missing.Message = l.named(missing.Message)
			outcome.unresolved[l.key.ref] = missing
		}
		shown := l.known
		if i == 0 {
			outcome.source = shown
			outcome.FoundBegan, outcome.FoundEnded = l.result.began, l.result.ended
			continue
		}
		if shown == nil {
			// Keep the artifact that was resolved before spec.source changed.
			shown = referencedArtifact(&helmOp.Status, l.key.ref)
		}
		if shown != nil {
			outcome.others = append(outcome.others,
				addonsv1.ReferencedArtifact{Reference: l.key.ref, ArtifactStatus: *shown})
		}
	}
	outcome.Artifact = outcome.artifacts[helmOp.Spec.Source.Ref]
	outcome.hasOthers = p.input.IsComplete
	outcome.verified = allVerified(helmOp, lookups)
	outcome.resolved = allResolved(helmOp, lookups, note)
}

// allResolved returns the condition Resolved for all references. If one reference is in its first lookup and another
// one failed, the condition shows the first lookup. HelmOp creates no HelmOp revision until this lookup ends, and
// dependent HelmOps wait for that HelmOp revision (dependencies.Unsettled). note is appended to the message of a
// success.
func allResolved(helmOp *addonsv1.HelmOp, lookups []*lookup, note string) metav1.Condition {
	first := map[metav1.ConditionStatus]*lookup{}
	count := map[metav1.ConditionStatus]int{}
	for _, l := range lookups {
		status := l.result.resolved.Status
		if first[status] == nil {
			first[status] = l
		}
		count[status]++
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionUnknown, metav1.ConditionFalse} {
		if worst := first[status]; worst != nil {
			condition := worst.result.resolved
			condition.Message = worst.named(condition.Message) +
				andOthers(count[status]-1, "reference is", "references are", "not resolved, either")
			return condition
		}
	}
	if before := conditions.Get(helmOp, addonsv1.ResolvedCondition); before != nil && first[""] != nil {
		return *before
	}
	condition := metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.ResolvedReason}
	if known := lookups[0].known; known != nil {
		condition.Message = describeArtifact(&known.ResolvedArtifact) +
			andOthers(len(lookups)-1, "reference is", "references are", "resolved: see status.artifacts") + note
	}
	return condition
}

// allVerified returns the condition Verified for all references; nil if spec.source.verify is not set. A failed
// verification is reported until the signatures of all artifacts were checked again: a restart or a running lookup does
// not change the condition.
func allVerified(helmOp *addonsv1.HelmOp, lookups []*lookup) *metav1.Condition {
	if helmOp.Spec.Source.Verify == nil {
		return nil
	}
	first := map[metav1.ConditionStatus]*lookup{}
	isFresh := true
	for _, l := range lookups {
		if l.result.verified == nil {
			continue
		}
		if status := l.result.verified.Status; first[status] == nil {
			first[status] = l
		}
		isFresh = isFresh && l.result.isFresh
	}
	before := conditions.Get(helmOp, addonsv1.VerifiedCondition)
	if first[metav1.ConditionFalse] == nil && !isFresh && isRefusal(before) &&
		before.ObservedGeneration == helmOp.Generation {
		return before
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue} {
		if shown := first[status]; shown != nil {
			condition := *shown.result.verified
			condition.Message = shown.named(condition.Message)
			if status == metav1.ConditionTrue {
				condition.Message += andOthers(len(lookups)-1, "artifact is", "artifacts are",
					"signed as spec.source.verify requires, too")
			}
			return &condition
		}
	}
	return before
}

// andOthers returns "; " and a sentence about n other references or artifacts; empty if n is 0. For its subject, see
// [apiutil.Count].
func andOthers(n int, one, many, predicate string) string {
	if n <= 0 {
		return ""
	}
	return "; " + plural.Count(n, "other "+one, "other "+many) + " " + predicate
}

// artifactOfSource returns the artifact of a source from the status, by the digest of the source; nil if there is none.
// It searches the whole status, because a reference may have moved from an override to spec.source.
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

// referencedArtifact returns the artifact of a reference other than spec.source from the status, for any source; nil if
// there is none.
func referencedArtifact(status *addonsv1.HelmOpStatus, ref addonsv1.ArtifactReference) *addonsv1.ArtifactStatus {
	for i := range status.Artifacts {
		if status.Artifacts[i].Reference == ref {
			return &status.Artifacts[i].ArtifactStatus
		}
	}
	return nil
}

// artifactStatus returns the status of a resolved artifact.
func artifactStatus(helmOp *addonsv1.HelmOp, found resolved, l *lookup) *addonsv1.ArtifactStatus {
	artifact := found.artifact
	status := &addonsv1.ArtifactStatus{
		ResolvedArtifact: apiutil.Selected(&helmOp.Spec.Source),
		MediaType:        apiutil.Truncate(artifact.MediaType, maxMediaType),
		Provenance:       found.provenance.DeepCopy(),
		SourceDigest:     l.source,
	}
	status.URL, status.Digest, status.Tag, status.Version = artifact.URL, artifact.Digest, artifact.Tag, artifact.Version
	// The format of a chart is omitted. So a user can set it in the spec without a change of releases.
	status.Format = addonsv1.ArtifactFormat(found.format)
	if found.format == bundle.FormatHelmChart {
		status.Format = ""
	}
	if found.signed != nil {
		status.Verification = &addonsv1.VerificationStatus{
			Provider:     addonsv1.VerificationProvider(l.policy.Provider),
			Signers:      signers(found.signed.Signers),
			PolicyDigest: l.policy.Digest(),
		}
	}
	return status
}

// provenance returns the origin of an artifact from its annotations; nil if they have none. It removes credentials from
// URLs: more users can read the status than can read the artifact.
func provenance(annotations map[string]string) *addonsv1.Provenance {
	source, _ := bundle.WithoutCredential(annotations[ocispec.AnnotationSource])
	origin := addonsv1.Provenance{
		Source:   apiutil.Truncate(source, maxProvenanceSource),
		Revision: apiutil.Truncate(annotations[ocispec.AnnotationRevision], maxProvenanceRevision),
		Created:  apiutil.Truncate(annotations[ocispec.AnnotationCreated], maxProvenanceCreated),
	}
	if origin == (addonsv1.Provenance{}) {
		return nil
	}
	return &origin
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
