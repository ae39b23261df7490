// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// errResolving says that there is no answer yet.
var errResolving = errors.New("the registry is being asked")

// means are those of a HelmOp to ask a registry with.
type means struct {
	access oci.Access

	// policy is what signatures are demanded; nil if none, or if that cannot be told.
	policy *verification.Policy

	// accessErr and policyErr are why access and policy cannot be told.
	accessErr, policyErr error

	// digest identifies all of it.
	digest string
}

// inquiry is all that it takes to find out what a reference of a HelmOp stands for, and what came of it.
type inquiry struct {
	question
	*means
	key resolutionKey

	// field is where the reference stands; empty for that of spec.source.
	field string

	// isToldTo tells that the HelmOp is asked to resolve now.
	isToldTo bool

	// known is what the reference stands for, for the source as it is now; nil if that is not known.
	known *addonsv1.ArtifactStatus

	// before and failedBefore are what was said of the same question the last time, and whether asking it had failed.
	before       verdict
	failedBefore bool

	// verdict is what there is to say now.
	verdict verdict
}

// Resolution is what an inquiry found out.
type Resolution struct {
	// artifact is without its annotations and layers, which may be large.
	artifact oci.Artifact

	// format is that of the artifact.
	format bundle.Format

	provenance *addonsv1.Provenance

	// signed is who signed the artifact, where that was asked.
	signed *verification.Result
}

// resolve finds out what each distinct reference stands for, if it is time to. A registry that fails takes nothing away: what the
// same reference stood for before stays valid.
func (r *Reconciler) resolve(ctx context.Context, scope *helmOpScope) error {
	inquiries, err := r.inquire(ctx, scope)
	if err != nil {
		return err
	}
	var open []*inquiry
	for _, asked := range inquiries {
		r.recall(scope.helmOp, asked)
		if !r.isSettled(scope, asked) {
			open = append(open, asked)
		}
	}
	answers, err := r.ask(ctx, scope.helmOp, open)
	if err != nil {
		return err
	}
	isPending := false
	for i, asked := range open {
		answer := answers[i]
		if !answer.Done {
			isPending = true
			asked.verdict = resolvingVerdict(scope.helmOp, asked)
			continue
		}
		if answer.Err == nil {
			r.resolution.share(asked.question, answer.Value, r.now())
		}
		r.conclude(scope, asked, answer.Value, answer.Err, r.now())
	}
	if len(open) > 0 && !isPending {
		scope.helmOp.Status.LastResolveRequest = inquiries[0].request
	}
	r.reportResolution(scope, inquiries)
	return nil
}

// inquire tells what is to be asked, and with what: first for spec.source, then for each other reference.
func (r *Reconciler) inquire(ctx context.Context, scope *helmOpScope) ([]*inquiry, error) {
	helmOp := scope.helmOp
	by, err := r.means(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	refs := []render.ReferredArtifact{{ArtifactReference: helmOp.Spec.Source.Ref}}
	if scope.variants, scope.variantsErr = render.NewVariants(&helmOp.Spec); scope.variantsErr == nil {
		refs = append(refs, scope.variants.References()...)
	}
	request := resolveRequest(helmOp)
	current := make(map[addonsv1.ArtifactReference]bool, len(refs))
	inquiries := make([]*inquiry, 0, len(refs))
	for _, ref := range refs {
		current[ref.ArtifactReference] = true
		source := helmOp.Spec.Source
		source.Ref = ref.ArtifactReference
		digest, err := apiutil.SourceDigest(&source)
		if err != nil {
			return nil, err
		}
		inquiries = append(inquiries, &inquiry{
			question: question{source: digest, access: by.digest, request: request},
			means:    by,
			key:      resolutionKey{helmOp: client.ObjectKeyFromObject(helmOp), ref: ref.ArtifactReference},
			field:    ref.Field,
			isToldTo: request != "" && request != helmOp.Status.LastResolveRequest,
		})
	}
	if scope.variantsErr == nil {
		r.resolution.retain(client.ObjectKeyFromObject(helmOp), current)
	}
	return inquiries, nil
}

// means reads what to ask with. What it cannot read for now is an error of the pass; what does not exist or may not be read is one
// of the HelmOp.
func (r *Reconciler) means(ctx context.Context, helmOp *addonsv1.HelmOp) (*means, error) {
	by := &means{}
	by.access, by.accessErr = r.references.Access(ctx, helmOp)
	by.policy, by.policyErr = r.references.Policy(ctx, helmOp)
	for _, err := range []error{by.accessErr, by.policyErr} {
		if err != nil && !errors.Is(err, references.ErrReferenceNotFound) && !errors.Is(err, references.ErrReferenceForbidden) {
			return nil, err
		}
	}
	var err error
	// A changed interval counts from now, not from the end of the one before.
	by.digest, err = apiutil.DigestOf(by.access, references.PolicyDigest(by.policy), by.accessErr != nil, by.policyErr != nil, helmOp.Spec.Source.Interval)
	return by, err
}

// recall finds what is known of a reference. What an earlier pass was answered comes before a status that the cache has not caught
// up with; going by that would ask again, or send every Cluster back to what a tag stood for before.
func (r *Reconciler) recall(helmOp *addonsv1.HelmOp, asked *inquiry) {
	asked.known = artifactOfSource(&helmOp.Status, asked.source)
	asked.before, asked.failedBefore, _ = r.resolution.said(asked.key, asked.question)
	answer := r.resolution.answer(asked.key, asked.source)
	// Known already, or another manager has found out something newer.
	isNews := answer != nil && (asked.known == nil ||
		asked.known.ResolvedArtifact != answer.ResolvedArtifact && !asked.known.ResolvedAt.After(answer.ResolvedAt.Time))
	if isNews {
		asked.known = answer
	}
}

// isSettled tells whether the registry needs not be asked: it was, not long ago, or another HelmOp was answered.
func (r *Reconciler) isSettled(scope *helmOpScope, asked *inquiry) bool {
	delay, never := r.resolution.due(asked.key, asked.question, asked.known != nil, r.now())
	if never || delay > 0 {
		asked.verdict = asked.before
		if !never {
			scope.retryWithin(delay)
		}
		return true
	}
	answer, ok := r.sharedAnswer(scope.helmOp, asked)
	if ok {
		r.conclude(scope, asked, answer.Resolution, nil, answer.at)
	}
	return ok
}

// sharedAnswer is what another HelmOp was answered lately, if that will do.
func (r *Reconciler) sharedAnswer(helmOp *addonsv1.HelmOp, asked *inquiry) (sharedAnswer, bool) {
	if asked.known == nil || asked.isToldTo {
		return sharedAnswer{}, false
	}
	answer, ok := r.resolution.shared(asked.key, asked.question, r.interval(helmOp), r.now())
	if ok && asked.policy != nil {
		answer.signed, ok = verify.SignersOf(r.verifier, apiutil.KnownArtifacts(&helmOp.Status), answer.artifact.URL, answer.artifact.Digest, asked.policy)
	}
	return answer, ok
}

// ask resolves references, side by side, and has the signatures of what they stand for checked. Its error is that of ctx.
func (r *Reconciler) ask(ctx context.Context, helmOp *addonsv1.HelmOp, open []*inquiry) ([]async.TaskOutcome[Resolution], error) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(helmOp)}
	tasks := make([]async.Task[Resolution], 0, len(open))
	for _, asked := range open {
		tasks = append(tasks, async.Task[Resolution]{
			Key:  fmt.Sprintf("%s %s %s %s", request, asked.source, asked.question.access, asked.request),
			Work: r.task(helmOp, asked),
		})
	}
	outcomes, err := r.tasks.RunAll(ctx, request, tasks)
	if err == nil {
		err = ctx.Err()
	}
	return outcomes, err
}

// task is the work of finding out what a reference stands for. It sees nothing that a pass may change.
func (r *Reconciler) task(helmOp *addonsv1.HelmOp, asked *inquiry) func(context.Context) (Resolution, error) {
	by, known := asked.means, apiutil.KnownArtifacts(&helmOp.Status)
	source, wanted := references.OciSource(helmOp, asked.key.ref, by.access), apiutil.Selected(&helmOp.Spec.Source)
	return func(ctx context.Context) (found Resolution, err error) {
		if err := errors.Join(by.accessErr, by.policyErr); err != nil {
			return found, err
		}
		if by.policy != nil {
			if err := by.policy.Validate(); err != nil {
				return found, fmt.Errorf("spec.source.verify: %w", err)
			}
		}
		if found.artifact, err = r.registry.Resolve(ctx, source); err != nil {
			return found, err
		}
		found.provenance, found.artifact.Annotations = provenance(found.artifact.Annotations), nil
		// The manifest tells what the artifact is: what cannot be installed is refused before anything is pulled.
		manifest := apiutil.BundleManifest(found.artifact.ConfigMediaType, found.artifact.ArtifactType, found.artifact.Layers)
		found.artifact.Layers = nil
		if found.format, _, err = bundle.Detect(manifest, apiutil.BundleSelection(&wanted)); err != nil {
			return found, err
		}
		if by.policy != nil {
			found.signed, err = verify.Verify(ctx, r.verifier, known, found.artifact.URL, found.artifact.Digest, by.access, by.policy)
		}
		return found, err
	}
}

// conclude notes what was found out at a time, and when to ask again.
func (r *Reconciler) conclude(scope *helmOpScope, asked *inquiry, found Resolution, err error, at time.Time) {
	helmOp := scope.helmOp
	if err == nil {
		err = checkDowngrade(asked.key.ref, scope.beforeOf(asked), &found.artifact)
	}
	asked.verdict.verified, asked.verdict.isFresh = verifiedCondition(helmOp, asked, found, err)
	entry := resolutionEntry{question: asked.question, fixed: asked.key.ref.Digest != ""}
	next := at.Add(r.resolution.record(asked.key, entry, r.interval(helmOp), at, err != nil, requeue.RetryAfter(err)))
	if next.After(at) {
		scope.retryWithin(max(next.Sub(r.now()), time.Millisecond))
	}
	if err != nil {
		asked.verdict.resolved = metav1.Condition{
			Status: metav1.ConditionFalse, Reason: reasons.For(err, reasons.ArtifactErrors, addonsv1.RegistryErrorReason), Message: err.Error(),
		}
	} else {
		r.learn(helmOp, asked, found)
		r.resolution.remember(asked.key, asked.known)
		asked.verdict.resolved = metav1.Condition{
			Status: metav1.ConditionTrue, Reason: addonsv1.ResolvedReason, Message: describeArtifact(&asked.known.ResolvedArtifact),
		}
	}
	r.resolution.say(asked.key, asked.verdict)
}

// interval is how often the references of a HelmOp are resolved again: its own interval, or the manager's minimum if that is longer.
func (r *Reconciler) interval(helmOp *addonsv1.HelmOp) time.Duration {
	return max(helmOp.Spec.Source.Interval.Duration, r.minInterval)
}

// raisedInterval says that the interval of a HelmOp is longer than it asks for; empty if it is not, or if its reference is never
// resolved again.
func (r *Reconciler) raisedInterval(helmOp *addonsv1.HelmOp) string {
	own := helmOp.Spec.Source.Interval.Duration
	if own >= r.minInterval || helmOp.Spec.Source.Ref.Digest != "" {
		return ""
	}
	return fmt.Sprintf("; resolved again every %s, the manager's minimum, and not every %s as spec.source.interval says", r.minInterval, own)
}

// resolveRequest is the value of the annotation that asks to resolve now, in the form in which the status keeps it.
func resolveRequest(helmOp *addonsv1.HelmOp) string {
	value := helmOp.Annotations[addonsv1.ResolveRequestedAtAnnotation]
	if len(value) > requeue.MaxResolveRequest {
		value = apiutil.HexDigest(value)
	}
	return value
}
