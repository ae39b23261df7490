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

// verdict is what there is to say of a reference.
type verdict struct {
	// resolved tells whether it is known what the reference stands for. Without a status, there is no news of that.
	resolved metav1.Condition

	// verified tells whether that is signed as demanded; nil if nothing is demanded. isFresh is that signatures were looked at and not
	// remembered.
	verified *metav1.Condition
	isFresh  bool
}

// resolvingVerdict is what is said while the registry is being asked. What is known stands meanwhile, and so does why it could not
// be found out the last time.
func resolvingVerdict(helmOp *addonsv1.HelmOp, asked *inquiry) verdict {
	if asked.failedBefore {
		return asked.before
	}
	var said verdict
	said.verified, said.isFresh = verifiedCondition(helmOp, asked, Resolution{}, errResolving)
	if asked.known == nil {
		said.resolved = metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: addonsv1.ResolvingReason, Message: errResolving.Error() + " for " + helmOp.Spec.Source.URL,
		}
	}
	return said
}

// learn takes what a reference was found to stand for.
func (r *Reconciler) learn(helmOp *addonsv1.HelmOp, asked *inquiry, found Resolution) {
	status := artifactStatus(helmOp, found, asked)
	status.ResolvedAt = metav1.NewTime(r.now())
	isNews := asked.known == nil || asked.known.ResolvedArtifact != status.ResolvedArtifact
	if !isNews {
		status.ResolvedAt = asked.known.ResolvedAt
	}
	asked.known = status
	if isNews {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.ArtifactResolvedEvent, "Resolve", asked.named(describeArtifact(&status.ResolvedArtifact)))
	}
}

// named says of which reference a message is, where it is not that of spec.source.
func (a *inquiry) named(message string) string {
	if a.field == "" {
		return message
	}
	return a.field + ": " + message
}

// reportResolution writes what is known of all references into the status, the conditions and the scope.
func (r *Reconciler) reportResolution(scope *helmOpScope, inquiries []*inquiry) {
	helmOp := scope.helmOp
	others := []addonsv1.ReferencedArtifact(nil)
	scope.artifacts = map[addonsv1.ArtifactReference]*addonsv1.ResolvedArtifact{}
	scope.unresolved = map[addonsv1.ArtifactReference]metav1.Condition{}
	for i, asked := range inquiries {
		if asked.known != nil {
			scope.artifacts[asked.key.ref] = &asked.known.ResolvedArtifact
		} else {
			missing := asked.verdict.resolved
			missing.Message = asked.named(missing.Message)
			scope.unresolved[asked.key.ref] = missing
		}
		switch shown := asked.known; {
		case i == 0 && shown != nil:
			helmOp.Status.Artifact = shown
		case i > 0:
			if shown == nil {
				// What it stood for when the source was another.
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
	r.reportVerification(helmOp, allVerified(helmOp, inquiries))
	resolved := allResolved(helmOp, inquiries, r.raisedInterval(helmOp))
	changed := report.SetCondition(helmOp, addonsv1.ResolvedCondition, resolved.Status, resolved.Reason, resolved.Message)
	if changed && resolved.Status == metav1.ConditionFalse {
		r.warn(helmOp, resolved.Reason, "Resolve", resolved.Message)
	}
}

// allResolved sums up what is said of references. What is asked for the first time comes before what failed: until it has an answer
// there is no new revision, and who depends on the HelmOp goes by that, see unsettled. The note is added to the message of success.
func allResolved(helmOp *addonsv1.HelmOp, inquiries []*inquiry, note string) metav1.Condition {
	first := map[metav1.ConditionStatus]*inquiry{}
	count := map[metav1.ConditionStatus]int{}
	for _, asked := range inquiries {
		status := asked.verdict.resolved.Status
		if first[status] == nil {
			first[status] = asked
		}
		count[status]++
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionUnknown, metav1.ConditionFalse} {
		if worst := first[status]; worst != nil {
			said := worst.verdict.resolved
			said.Message = worst.named(said.Message) + andOthers(count[status]-1, "; so it is with %d more")
			return said
		}
	}
	if before := conditions.Get(helmOp, addonsv1.ResolvedCondition); before != nil && first[""] != nil {
		return *before
	}
	said := metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.ResolvedReason}
	if known := inquiries[0].known; known != nil {
		said.Message = describeArtifact(&known.ResolvedArtifact) + andOthers(len(inquiries)-1, "; %d more are resolved, see status.artifacts") + note
	}
	return said
}

// allVerified sums up what is said of signatures; nil if none are demanded. A refusal stands until the signatures of all have been
// looked at again: a restart, or a registry that is asked, makes nothing good.
func allVerified(helmOp *addonsv1.HelmOp, inquiries []*inquiry) *metav1.Condition {
	if helmOp.Spec.Source.Verify == nil {
		return nil
	}
	first := map[metav1.ConditionStatus]*inquiry{}
	isFresh := true
	for _, asked := range inquiries {
		if asked.verdict.verified == nil {
			continue
		}
		if status := asked.verdict.verified.Status; first[status] == nil {
			first[status] = asked
		}
		isFresh = isFresh && asked.verdict.isFresh
	}
	before := conditions.Get(helmOp, addonsv1.VerifiedCondition)
	if first[metav1.ConditionFalse] == nil && !isFresh && isRefusal(before) && before.ObservedGeneration == helmOp.Generation {
		return before
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue} {
		if shown := first[status]; shown != nil {
			said := *shown.verdict.verified
			said.Message = shown.named(said.Message)
			if status == metav1.ConditionTrue {
				said.Message += andOthers(len(inquiries)-1, "; %d more are signed as demanded, too")
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

// artifactOfSource is what a status says that a source stands for, wherever it says so: a reference may have moved from an
// override to the source. Nil if it does not say.
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

// referencedArtifact is what a status says that a reference beside spec.source stands for, whatever the source was; nil if it does
// not say.
func referencedArtifact(status *addonsv1.HelmOpStatus, ref addonsv1.ArtifactReference) *addonsv1.ArtifactStatus {
	for i := range status.Artifacts {
		if status.Artifacts[i].Reference == ref {
			return &status.Artifacts[i].ArtifactStatus
		}
	}
	return nil
}

// artifactStatus is what the status says of a resolution.
func artifactStatus(helmOp *addonsv1.HelmOp, found Resolution, asked *inquiry) *addonsv1.ArtifactStatus {
	artifact := found.artifact
	status := &addonsv1.ArtifactStatus{
		ResolvedArtifact: apiutil.Selected(&helmOp.Spec.Source),
		MediaType:        apiutil.Truncate(artifact.MediaType, maxMediaType),
		Provenance:       found.provenance.DeepCopy(),
		SourceDigest:     asked.source,
	}
	status.URL, status.Digest, status.Tag, status.Version = artifact.URL, artifact.Digest, artifact.Tag, artifact.Version
	// Whether somebody wrote down what the media types tell makes no other release.
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

// provenance is what an artifact says about where it comes from; nil if it says nothing. More may read a status than the artifact.
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

// artifactOf is what a reference of the spec stands for, or a *UnresolvedError that says why that is not known.
func (s *helmOpScope) artifactOf(ref addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error) {
	if artifact := s.artifacts[ref]; artifact != nil {
		return artifact, nil
	}
	if why, ok := s.unresolved[ref]; ok {
		return nil, &reasons.UnresolvedError{Reason: why.Reason, Message: why.Message}
	}
	return nil, errors.New("the reference is not one of the spec")
}
