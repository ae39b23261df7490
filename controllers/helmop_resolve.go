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

package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
)

// What the status has room for, in bytes.
const (
	maxMediaType          = 255
	maxProvenanceSource   = 512
	maxProvenanceRevision = 256
	maxProvenanceCreated  = 64
	maxResolveRequest     = 64
)

// errResolving says that there is no answer yet.
var errResolving = errors.New("the registry is being asked")

// inquiry is all that it takes to find out what a source stands for.
type inquiry struct {
	question
	access oci.Access

	// policy is what signatures are demanded; nil if none, or if that cannot be told.
	policy *verification.Policy

	// accessErr and policyErr are why access and policy cannot be told.
	accessErr, policyErr error
}

// resolution is what an inquiry found out.
type resolution struct {
	// artifact is without its annotations, which may be large.
	artifact oci.Artifact

	provenance *addonsv1.Provenance

	// signed is who signed the artifact, where that was asked.
	signed *verification.Result
}

// resolve finds out what the source stands for, if it is time to. A registry that fails takes nothing away: what the
// same source stood for before stays valid.
func (r *helmOpReconciler) resolve(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	key := client.ObjectKeyFromObject(helmOp)
	asked, err := r.inquire(ctx, helmOp)
	if err != nil {
		return err
	}
	r.recall(helmOp, key, asked.source)
	if known := helmOp.Status.Artifact; known != nil && known.SourceDigest == asked.source {
		scope.artifact = &known.ResolvedArtifact
	}
	// Known and not yet due: nothing is asked, and the conditions stand as they are.
	delay, never := r.resolution.due(key, asked.question, scope.artifact != nil, r.now())
	if never || delay > 0 {
		confirmResolution(helmOp, r.resolution.said(key, asked.question))
		if !never {
			scope.requeueAfter = delay
		}
		return nil
	}
	if answer, ok := r.sharedAnswer(scope, asked); ok {
		r.conclude(scope, asked, answer.resolution, nil, answer.at)
		return nil
	}
	found, err, done := r.ask(ctx, helmOp, asked)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !done {
		r.reportResolving(scope, asked)
		return nil
	}
	if err == nil {
		r.resolution.share(asked.question, found, r.now())
	}
	r.conclude(scope, asked, found, err, r.now())
	return nil
}

// conclude writes down what was found out at a time, and when to ask again.
func (r *helmOpReconciler) conclude(scope *helmOpScope, asked *inquiry, found resolution, err error, at time.Time) {
	helmOp := scope.helmOp
	key := client.ObjectKeyFromObject(helmOp)
	r.reportVerification(helmOp, verifiedCondition(helmOp, asked, found, err, r.resolution.failing(key, asked.question)))
	entry := resolutionEntry{question: asked.question, fixed: helmOp.Spec.Source.Ref.Digest != ""}
	next := at.Add(r.resolution.record(key, entry, helmOp.Spec.Source.Interval.Duration, at, err != nil, retryAfter(err)))
	if next.After(at) {
		scope.requeueAfter = max(next.Sub(r.now()), time.Millisecond)
	}
	helmOp.Status.LastResolveRequest = asked.request
	if err != nil {
		r.reportUnresolved(helmOp, err)
	} else {
		r.reportResolved(helmOp, found, asked)
		r.resolution.remember(key, helmOp.Status.Artifact)
		scope.artifact = &helmOp.Status.Artifact.ResolvedArtifact
	}
	r.resolution.say(key, resolutionConditions(helmOp))
}

// inquire reads what is to be asked, and with what. What it cannot read for now is an error of the pass; what does not exist or
// may not be read is one of the HelmOp.
func (r *helmOpReconciler) inquire(ctx context.Context, helmOp *addonsv1.HelmOp) (*inquiry, error) {
	source := &helmOp.Spec.Source
	asked := &inquiry{}
	asked.access, asked.accessErr = r.references.access(ctx, helmOp)
	asked.policy, asked.policyErr = r.references.policy(ctx, helmOp)
	for _, err := range []error{asked.accessErr, asked.policyErr} {
		if err != nil && !errors.Is(err, errReferenceNotFound) && !errors.Is(err, errReferenceForbidden) {
			return nil, err
		}
	}
	var err error
	if asked.question.source, err = sourceDigest(source); err != nil {
		return nil, err
	}
	// A changed interval counts from now, not from the end of the one before.
	asked.question.access, err = digestOf(asked.access, policyDigest(asked.policy), asked.accessErr != nil, asked.policyErr != nil, source.Interval)
	asked.request = resolveRequest(helmOp)
	return asked, err
}

// sharedAnswer is what another HelmOp was answered lately, if that will do.
func (r *helmOpReconciler) sharedAnswer(scope *helmOpScope, asked *inquiry) (sharedAnswer, bool) {
	helmOp := scope.helmOp
	isToldTo := asked.request != "" && asked.request != helmOp.Status.LastResolveRequest
	if scope.artifact == nil || isToldTo {
		return sharedAnswer{}, false
	}
	answer, ok := r.resolution.shared(client.ObjectKeyFromObject(helmOp), asked.question, helmOp.Spec.Source.Interval.Duration, r.now())
	if ok && asked.policy != nil {
		answer.signed, ok = signersOf(r.verifier, helmOp.Status.Artifact, answer.artifact.URL, answer.artifact.Digest, asked.policy)
	}
	return answer, ok
}

// ask resolves the reference and has the signatures of what it stands for checked. done is false while the registry is asked.
func (r *helmOpReconciler) ask(ctx context.Context, helmOp *addonsv1.HelmOp, asked *inquiry) (found resolution, err error, done bool) {
	if err := errors.Join(asked.accessErr, asked.policyErr); err != nil {
		return found, err, true
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(helmOp)}
	key := fmt.Sprintf("%s %s %s %s", request, asked.source, asked.question.access, asked.request)
	source, layer, known := ociSource(helmOp, asked.access), layerMediaType(helmOp), helmOp.Status.Artifact.DeepCopy()
	return r.errands.run(ctx, key, request, func(ctx context.Context) (found resolution, err error) {
		if asked.policy != nil {
			if err := asked.policy.Validate(); err != nil {
				return found, fmt.Errorf("spec.source.verify: %w", err)
			}
		}
		if found.artifact, err = r.registry.Resolve(ctx, source); err != nil {
			return found, err
		}
		found.provenance, found.artifact.Annotations = provenance(found.artifact.Annotations), nil
		// The manifest tells what the artifact is: what is no chart is refused before anything is pulled.
		manifest := &found.artifact
		if err = bundle.Supported(manifest.ConfigMediaType, manifest.ArtifactType, manifest.LayerMediaTypes, layer); err != nil {
			return found, err
		}
		if asked.policy != nil {
			found.signed, err = verify(ctx, r.verifier, known, manifest.URL, manifest.Digest, asked.access, asked.policy)
		}
		return found, err
	})
}

// recall writes an answer into the status that an earlier pass got. The status that says so may not have reached the cache
// yet; going by an older one would ask again, or send every Cluster back to what a tag stood for before.
func (r *helmOpReconciler) recall(helmOp *addonsv1.HelmOp, key types.NamespacedName, source string) {
	answer, failing := r.resolution.answer(key, source)
	known := helmOp.Status.Artifact
	if answer == nil {
		return
	}
	if known != nil && known.SourceDigest == source &&
		(known.ResolvedArtifact == answer.ResolvedArtifact || known.ResolvedAt.After(answer.ResolvedAt.Time)) {
		// Known already, or another manager has found out something newer.
		return
	}
	helmOp.Status.Artifact = answer
	if failing {
		return
	}
	setCondition(helmOp, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason, describeArtifact(&answer.ResolvedArtifact))
}

// resolutionConditions are the conditions that tell of the source.
func resolutionConditions(helmOp *addonsv1.HelmOp) []metav1.Condition {
	var said []metav1.Condition
	for _, name := range []string{addonsv1.ResolvedCondition, addonsv1.VerifiedCondition} {
		if condition := conditions.Get(helmOp, name); condition != nil {
			said = append(said, *condition)
		}
	}
	return said
}

// confirmResolution says that what was found out holds for the spec of now, too. What this manager said last comes before what
// the cache has, which may not have caught up.
func confirmResolution(helmOp *addonsv1.HelmOp, said []metav1.Condition) {
	if len(said) == 0 {
		said = resolutionConditions(helmOp)
	}
	for _, condition := range said {
		setCondition(helmOp, condition.Type, condition.Status, condition.Reason, condition.Message)
	}
}

// reportResolving says that the registry is being asked. What is known stands meanwhile, and so does why it could not be
// found out the last time.
func (r *helmOpReconciler) reportResolving(scope *helmOpScope, asked *inquiry) {
	helmOp := scope.helmOp
	key := client.ObjectKeyFromObject(helmOp)
	if r.resolution.failing(key, asked.question) {
		confirmResolution(helmOp, r.resolution.said(key, asked.question))
		return
	}
	r.reportVerification(helmOp, verifiedCondition(helmOp, asked, resolution{}, errResolving, false))
	if scope.artifact != nil {
		confirmCondition(helmOp, addonsv1.ResolvedCondition)
		return
	}
	setCondition(helmOp, addonsv1.ResolvedCondition, metav1.ConditionUnknown, addonsv1.ResolvingReason,
		errResolving.Error()+" for "+helmOp.Spec.Source.URL)
}

func (r *helmOpReconciler) reportUnresolved(helmOp *addonsv1.HelmOp, err error) {
	reason := reasonFor(err, artifactErrors, addonsv1.RegistryErrorReason)
	message := err.Error()
	if setCondition(helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, reason, message) {
		r.warn(helmOp, reason, "Resolve", message)
	}
}

func (r *helmOpReconciler) reportResolved(helmOp *addonsv1.HelmOp, found resolution, asked *inquiry) {
	status := artifactStatus(helmOp, found, asked)
	status.ResolvedAt = metav1.NewTime(r.now())
	message := describeArtifact(&status.ResolvedArtifact)
	known := helmOp.Status.Artifact
	isNews := known == nil || known.ResolvedArtifact != status.ResolvedArtifact || known.SourceDigest != status.SourceDigest
	if !isNews {
		status.ResolvedAt = known.ResolvedAt
	}
	helmOp.Status.Artifact = status
	if isNews {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.ArtifactResolvedEvent, "Resolve", message)
	}
	setCondition(helmOp, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason, message)
}

// sourceDigest identifies what is asked of a registry. How often and with which credentials does not belong to it.
func sourceDigest(source *addonsv1.ArtifactSource) (string, error) {
	return digestOf(source.URL, source.Ref, source.Insecure, source.LayerSelector)
}

// resolveRequest is the value of the annotation that asks to resolve now, in the form in which the status keeps it.
func resolveRequest(helmOp *addonsv1.HelmOp) string {
	value := helmOp.Annotations[addonsv1.ResolveRequestedAtAnnotation]
	if len(value) > maxResolveRequest {
		value = hexDigest(value)
	}
	return value
}

// retryAfter is how long a registry asks to be left alone.
func retryAfter(err error) time.Duration {
	var failure *oci.Error
	if errors.As(err, &failure) {
		return failure.RetryAfter
	}
	return 0
}

// artifactStatus is what the status says of a resolution.
func artifactStatus(helmOp *addonsv1.HelmOp, found resolution, asked *inquiry) *addonsv1.ArtifactStatus {
	artifact := found.artifact
	status := &addonsv1.ArtifactStatus{
		ResolvedArtifact: addonsv1.ResolvedArtifact{
			URL: artifact.URL, Digest: artifact.Digest, Tag: artifact.Tag, Version: artifact.Version,
			LayerMediaType: layerMediaType(helmOp),
		},
		MediaType:    truncate(artifact.MediaType, maxMediaType),
		Provenance:   found.provenance.DeepCopy(),
		SourceDigest: asked.source,
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

// provenance is what an artifact says about where it comes from; nil if it says nothing.
func provenance(annotations map[string]string) *addonsv1.Provenance {
	said := addonsv1.Provenance{
		Source:   truncate(annotations[ocispec.AnnotationSource], maxProvenanceSource),
		Revision: truncate(annotations[ocispec.AnnotationRevision], maxProvenanceRevision),
		Created:  truncate(annotations[ocispec.AnnotationCreated], maxProvenanceCreated),
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
