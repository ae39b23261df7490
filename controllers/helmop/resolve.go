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

// errResolving means that the registry has not answered yet.
var errResolving = errors.New("the registry is being asked")

// registryAccess is how a HelmOp accesses registries, and which signatures it requires.
type registryAccess struct {
	access oci.Access

	// policy is the signatures that are required; nil if none are, or if policyErr is set.
	policy *verification.Policy

	// accessErr and policyErr are why access and policy cannot be read.
	accessErr, policyErr error

	// digest identifies all of it.
	digest string
}

// lookup is the resolution of one reference of a HelmOp to an artifact: what it needs and its result.
type lookup struct {
	lookupKey
	*registryAccess
	key resolutionKey

	// field is the field of the spec with the reference; empty for spec.source.
	field string

	// isRequested is true if an annotation of the HelmOp asks for a lookup now.
	isRequested bool

	// known is the last known artifact of the reference, for the current source; nil if there is none.
	known *addonsv1.ArtifactStatus

	// lastResult is the result of the last lookup with the same key, and hasFailedBefore is true if that failed.
	lastResult      lookupResult
	hasFailedBefore bool

	// result is the result of this lookup.
	result lookupResult
}

// resolved is what a lookup found.
type resolved struct {
	// artifact is without its annotations and layers, which may be large.
	artifact oci.Artifact

	// format is that of the artifact.
	format bundle.Format

	provenance *addonsv1.Provenance

	// signed is who signed the artifact, where that was asked.
	signed *verification.Result
}

// resolve looks up the artifact of each distinct reference whose lookup is due. If a registry fails, the last known
// artifact of the reference stays.
func (r *Reconciler) resolve(ctx context.Context, scope *helmOpScope) error {
	lookups, err := r.lookups(ctx, scope)
	if err != nil {
		return err
	}
	var open []*lookup
	for _, asked := range lookups {
		r.loadCached(scope.helmOp, asked)
		if !r.isUpToDate(scope, asked) {
			open = append(open, asked)
		}
	}
	answers, err := r.lookUp(ctx, scope.helmOp, open)
	if err != nil {
		return err
	}
	isPending := false
	for i, asked := range open {
		answer := answers[i]
		if !answer.Done {
			isPending = true
			asked.result = resolvingResult(scope.helmOp, asked)
			continue
		}
		if answer.Err == nil {
			r.resolution.share(asked.lookupKey, answer.Value, r.now())
		}
		r.storeResult(scope, asked, answer.Value, answer.Err, r.now())
	}
	if len(open) > 0 && !isPending {
		scope.helmOp.Status.LastResolveRequest = lookups[0].request
	}
	r.reportResolution(scope, lookups)
	return nil
}

// lookups returns a lookup for spec.source and then one for each other reference.
func (r *Reconciler) lookups(ctx context.Context, scope *helmOpScope) ([]*lookup, error) {
	helmOp := scope.helmOp
	by, err := r.registryAccess(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	refs := []render.ReferredArtifact{{ArtifactReference: helmOp.Spec.Source.Ref}}
	if scope.variants, scope.variantsErr = render.NewVariants(&helmOp.Spec); scope.variantsErr == nil {
		refs = append(refs, scope.variants.References()...)
	}
	request := resolveRequest(helmOp)
	current := make(map[addonsv1.ArtifactReference]bool, len(refs))
	lookups := make([]*lookup, 0, len(refs))
	for _, ref := range refs {
		current[ref.ArtifactReference] = true
		source := helmOp.Spec.Source
		source.Ref = ref.ArtifactReference
		digest, err := apiutil.SourceDigest(&source)
		if err != nil {
			return nil, err
		}
		lookups = append(lookups, &lookup{
			lookupKey:      lookupKey{source: digest, access: by.digest, request: request},
			registryAccess: by,
			key:            resolutionKey{helmOp: client.ObjectKeyFromObject(helmOp), ref: ref.ArtifactReference},
			field:          ref.Field,
			isRequested:    request != "" && request != helmOp.Status.LastResolveRequest,
		})
	}
	if scope.variantsErr == nil {
		r.resolution.retain(client.ObjectKeyFromObject(helmOp), current)
	}
	return lookups, nil
}

// registryAccess reads the Secrets and ServiceAccounts that the HelmOp names. One that does not exist or may not be
// read is an error of the HelmOp and is in the result; any other error ends the pass.
func (r *Reconciler) registryAccess(ctx context.Context, helmOp *addonsv1.HelmOp) (*registryAccess, error) {
	by := &registryAccess{}
	by.access, by.accessErr = r.references.Access(ctx, helmOp)
	by.policy, by.policyErr = r.references.Policy(ctx, helmOp)
	for _, err := range []error{by.accessErr, by.policyErr} {
		if err != nil && !errors.Is(err, references.ErrReferenceNotFound) &&
			!errors.Is(err, references.ErrReferenceForbidden) {
			return nil, err
		}
	}
	var err error
	// A changed interval counts from now, not from the end of the one before.
	by.digest, err = apiutil.DigestOf(by.access, references.PolicyDigest(by.policy), by.accessErr != nil,
		by.policyErr != nil, helmOp.Spec.Source.Interval)
	return by, err
}

// loadCached sets the last known artifact and the last result of a lookup. The answer in memory comes before an older
// one in the status, which may not have been written: with the older one, every Cluster would go back to the artifact
// of before.
func (r *Reconciler) loadCached(helmOp *addonsv1.HelmOp, asked *lookup) {
	asked.known = artifactOfSource(&helmOp.Status, asked.source)
	asked.lastResult, asked.hasFailedBefore, _ = r.resolution.lastResult(asked.key, asked.lookupKey)
	answer := r.resolution.lastArtifact(asked.key, asked.source)
	// The status may also be newer: another manager resolved the reference.
	isNews := answer != nil && (asked.known == nil ||
		asked.known.ResolvedArtifact != answer.ResolvedArtifact && !asked.known.ResolvedAt.After(answer.ResolvedAt.Time))
	if isNews {
		asked.known = answer
	}
}

// isUpToDate reports whether no request is due: the last lookup was not long ago, or another HelmOp has a result that
// can be shared.
func (r *Reconciler) isUpToDate(scope *helmOpScope, asked *lookup) bool {
	delay, never := r.resolution.due(asked.key, asked.lookupKey, asked.known != nil, r.now())
	if never || delay > 0 {
		asked.result = asked.lastResult
		if !never {
			scope.retryWithin(delay)
		}
		return true
	}
	answer, ok := r.sharedResult(scope.helmOp, asked)
	if ok {
		r.storeResult(scope, asked, answer.resolved, nil, answer.at)
	}
	return ok
}

// sharedResult is the recent result of another HelmOp, if it can be used.
func (r *Reconciler) sharedResult(helmOp *addonsv1.HelmOp, asked *lookup) (sharedResult, bool) {
	if asked.known == nil || asked.isRequested {
		return sharedResult{}, false
	}
	answer, ok := r.resolution.shared(asked.key, asked.lookupKey, r.interval(helmOp), r.now())
	if ok && asked.policy != nil {
		answer.signed, ok = verify.SignersOf(r.verifier, apiutil.KnownArtifacts(&helmOp.Status), answer.artifact.URL,
			answer.artifact.Digest, asked.policy)
	}
	return answer, ok
}

// lookUp resolves references and checks the signatures of their artifacts, all in parallel. Its error is that of ctx.
func (r *Reconciler) lookUp(ctx context.Context, helmOp *addonsv1.HelmOp,
	open []*lookup,
) ([]async.TaskOutcome[resolved], error) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(helmOp)}
	tasks := make([]async.Task[resolved], 0, len(open))
	for _, asked := range open {
		tasks = append(tasks, async.Task[resolved]{
			Key:  fmt.Sprintf("%s %s %s %s", request, asked.source, asked.lookupKey.access, asked.request),
			Work: r.task(helmOp, asked),
		})
	}
	outcomes, err := r.tasks.RunAll(ctx, request, tasks)
	if err == nil {
		err = ctx.Err()
	}
	return outcomes, err
}

// task is the background task of a lookup. It uses nothing that a pass may change.
func (r *Reconciler) task(helmOp *addonsv1.HelmOp, asked *lookup) func(context.Context) (resolved, error) {
	by, known := asked.registryAccess, apiutil.KnownArtifacts(&helmOp.Status)
	source, wanted := references.OciSource(helmOp, asked.key.ref, by.access), apiutil.Selected(&helmOp.Spec.Source)
	return func(ctx context.Context) (found resolved, err error) {
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
		// An artifact that cannot be installed is refused by its manifest, before its layers are pulled.
		manifest := apiutil.BundleManifest(found.artifact.ConfigMediaType, found.artifact.ArtifactType, found.artifact.Layers)
		found.artifact.Layers = nil
		if found.format, _, err = bundle.Detect(manifest, apiutil.BundleSelection(&wanted)); err != nil {
			return found, err
		}
		if by.policy != nil {
			found.signed, err = verify.Verify(ctx, r.verifier, known, found.artifact.URL, found.artifact.Digest, by.access,
				by.policy)
		}
		return found, err
	}
}

// storeResult stores the result of a lookup at a time, and when the next one is due.
func (r *Reconciler) storeResult(scope *helmOpScope, asked *lookup, found resolved, err error, at time.Time) {
	helmOp := scope.helmOp
	if err == nil {
		err = checkDowngrade(asked.key.ref, scope.beforeOf(asked), &found.artifact)
	}
	asked.result.verified, asked.result.isFresh = verifiedCondition(helmOp, asked, found, err)
	entry := resolutionEntry{lookupKey: asked.lookupKey, fixed: asked.key.ref.Digest != ""}
	next := at.Add(r.resolution.record(asked.key, entry, r.interval(helmOp), at, err != nil, requeue.RetryAfter(err)))
	if next.After(at) {
		scope.retryWithin(max(next.Sub(r.now()), time.Millisecond))
	}
	if err != nil {
		asked.result.resolved = metav1.Condition{
			Status: metav1.ConditionFalse, Reason: reasons.For(err, reasons.ArtifactErrors, addonsv1.RegistryErrorReason),
			Message: err.Error(),
		}
	} else {
		r.updateArtifact(helmOp, asked, found)
		r.resolution.setArtifact(asked.key, asked.known)
		asked.result.resolved = metav1.Condition{
			Status: metav1.ConditionTrue, Reason: addonsv1.ResolvedReason,
			Message: describeArtifact(&asked.known.ResolvedArtifact),
		}
	}
	r.resolution.setLastResult(asked.key, asked.result)
}

// interval is how often the references of a HelmOp are looked up: its own interval, or the minimum of the manager if
// that is longer.
func (r *Reconciler) interval(helmOp *addonsv1.HelmOp) time.Duration {
	return max(helmOp.Spec.Source.Interval.Duration, r.minInterval)
}

// raisedInterval says that the interval of a HelmOp is longer than it asks for; empty if it is not, or if its reference
// is never resolved again.
func (r *Reconciler) raisedInterval(helmOp *addonsv1.HelmOp) string {
	own := helmOp.Spec.Source.Interval.Duration
	if own >= r.minInterval || helmOp.Spec.Source.Ref.Digest != "" {
		return ""
	}
	return fmt.Sprintf("; resolved again every %s, the manager's minimum, and not every %s as spec.source.interval says",
		r.minInterval, own)
}

// resolveRequest is the value of the annotation that asks for a lookup now, in the form that the status keeps.
func resolveRequest(helmOp *addonsv1.HelmOp) string {
	value := helmOp.Annotations[addonsv1.ResolveRequestedAtAnnotation]
	if len(value) > requeue.MaxResolveRequest {
		value = apiutil.HexDigest(value)
	}
	return value
}
