// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// Registry resolves references to artifacts.
type Registry interface {
	Resolve(ctx context.Context, source oci.Source) (oci.Artifact, error)
}

// Options are the dependencies and settings of a Resolver.
type Options struct {
	Registry   Registry
	Verifier   verify.Verifier
	References *references.Reader

	// MinInterval is the minimum time between two lookups of a reference.
	MinInterval time.Duration

	// Concurrency is the largest number of concurrent lookups.
	Concurrency int

	Now func() time.Time
}

// Resolver resolves the references of HelmOps. It is safe for concurrent use.
type Resolver struct {
	options  Options
	tasks    *async.Tasks[resolved]
	schedule *schedule
}

// New returns a Resolver that has not resolved anything yet.
func New(options Options) *Resolver {
	return &Resolver{options: options, tasks: async.NewTasks[resolved](options.Concurrency), schedule: newSchedule()}
}

// Source returns a source of requests for HelmOps whose lookups have ended.
func (r *Resolver) Source() source.Source { return r.tasks.Waker.Source() }

// Forget drops the results of a HelmOp.
func (r *Resolver) Forget(helmOp client.ObjectKey) { r.schedule.forget(helmOp) }

// Input is the input of a Resolver in addition to the HelmOp.
type Input struct {
	// Others are the references other than spec.source. IsComplete is false if they are not known because the spec is not
	// valid.
	Others     []render.ReferredArtifact
	IsComplete bool

	// Newest is the newest revision; nil if there is none.
	Newest *addonsv1.HelmOpRevision

	// Releases returns the releases of the HelmOp. Resolve calls Releases only if neither the status of the HelmOp nor
	// Newest has an artifact for a range.
	Releases func() ([]*addonsv1.HelmOpRelease, error)
}

// pass is the state of one call of Resolve.
type pass struct {
	helmOp  *addonsv1.HelmOp
	input   Input
	outcome Outcome
}

// errResolving means that the registry has not answered yet.
var errResolving = errors.New("the registry has not answered yet")

// registryAccess has the credentials of a HelmOp for registries, and the signatures that the HelmOp requires.
type registryAccess struct {
	access oci.Access

	// policy contains the required signatures; nil if none are required, or if policyErr is set.
	policy *verification.Policy

	// accessErr and policyErr are the errors of reading access and policy.
	accessErr, policyErr error

	// digest identifies the content of the other fields.
	digest string
}

// lookup is the resolution of one reference of a HelmOp to an artifact: the inputs and the result.
type lookup struct {
	lookupKey
	*registryAccess
	key referenceKey

	// field is the field of the spec with the reference; empty for spec.source.
	field string

	// isRequested is true if an annotation of the HelmOp requests a lookup now.
	isRequested bool

	// known is the last known artifact of the reference, for the current source; nil if there is none.
	known *addonsv1.ArtifactStatus

	// inUse is the artifact to which the result must not be a downgrade; nil if there is none.
	inUse *addonsv1.ArtifactStatus

	// lastResult is the result of the last lookup with the same key. hasFailedBefore is true if this lookup failed.
	lastResult      lookupResult
	hasFailedBefore bool

	// result is the result of this lookup.
	result lookupResult
}

// resolved is the result of a successful lookup.
type resolved struct {
	// artifact has no annotations and layers, because these may be large.
	artifact oci.Artifact

	// format is the format of the artifact.
	format bundle.Format

	provenance *addonsv1.Provenance

	// signed contains the signers of the artifact; nil if no signatures are required.
	signed *verification.Result

	// began and ended are the times of the lookup.
	began, ended time.Time
}

// Resolve looks up the artifact of each distinct reference whose lookup is due. If a registry fails, a reference keeps
// its last known artifact. Resolve does not change the HelmOp.
func (r *Resolver) Resolve(ctx context.Context, helmOp *addonsv1.HelmOp, input Input) (*Outcome, error) {
	p := &pass{helmOp: helmOp, input: input}
	lookups, err := r.lookups(ctx, p)
	if err != nil {
		return nil, err
	}
	var open []*lookup
	for _, l := range lookups {
		if err := r.loadCached(p, l); err != nil {
			return nil, err
		}
		if !r.isUpToDate(p, l) {
			open = append(open, l)
		}
	}
	outcomes, err := r.lookUp(ctx, helmOp, open)
	if err != nil {
		return nil, err
	}
	isPending := false
	for i, l := range open {
		outcome := outcomes[i]
		if !outcome.Done {
			isPending = true
			l.result = resolvingResult(helmOp, l)
			continue
		}
		if outcome.Err == nil {
			r.schedule.share(l.lookupKey, outcome.Value, r.options.Now())
		}
		r.storeResult(p, l, outcome.Value, outcome.Err, r.options.Now())
	}
	// Without an open lookup, an earlier pass has ended the requested lookups, and the write of its status failed.
	if (len(open) > 0 || lookups[0].isRequested) && !isPending {
		p.outcome.request = &lookups[0].request
	}
	p.conclude(lookups, r.raisedInterval(helmOp))
	return &p.outcome, nil
}

// lookups returns a lookup for spec.source, and then a lookup for each other reference.
func (r *Resolver) lookups(ctx context.Context, p *pass) ([]*lookup, error) {
	helmOp := p.helmOp
	access, err := readAccess(ctx, r.options.References, helmOp)
	if err != nil {
		return nil, err
	}
	refs := []render.ReferredArtifact{{ArtifactReference: helmOp.Spec.Source.Ref}}
	refs = append(refs, p.input.Others...)
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
			lookupKey:      lookupKey{source: digest, access: access.digest, request: request},
			registryAccess: access,
			key:            referenceKey{helmOp: client.ObjectKeyFromObject(helmOp), ref: ref.ArtifactReference},
			field:          ref.Field,
			isRequested:    request != "" && request != helmOp.Status.LastResolveRequest,
		})
	}
	if p.input.IsComplete {
		r.schedule.retain(client.ObjectKeyFromObject(helmOp), current)
	}
	return lookups, nil
}

// userErrors are the errors of references that a user must correct in the HelmOp or in the object.
var userErrors = []error{references.ErrReferenceNotFound, references.ErrReferenceForbidden, ocierr.ErrInvalidAccess}

// readAccess reads the Secrets and ServiceAccounts that the HelmOp names. If a user must correct the HelmOp or an
// object, the error is in the result. Any other error ends the pass.
func readAccess(ctx context.Context, reader *references.Reader, helmOp *addonsv1.HelmOp) (*registryAccess, error) {
	a := &registryAccess{}
	a.access, a.accessErr = reader.Access(ctx, helmOp)
	a.policy, a.policyErr = reader.Policy(ctx, helmOp)
	for _, err := range []error{a.accessErr, a.policyErr} {
		if err != nil && !slices.ContainsFunc(userErrors, func(known error) bool { return errors.Is(err, known) }) {
			return nil, err
		}
	}
	var err error
	// The digest includes the interval. So a changed interval applies now, and not only when the former interval ends.
	a.digest, err = apiutil.DigestOf(a.access.Digest(), references.PolicyDigest(a.policy), a.accessErr != nil,
		a.policyErr != nil, helmOp.Spec.Source.Interval)
	return a, err
}

// loadCached sets the artifacts and the last result of a lookup that are known without a request. An artifact in memory
// or in the newest revision has priority over an older artifact in the status, because the last write of the status may
// have failed, or the manager stopped before it. With the older artifact, every Cluster would return to the previous
// artifact.
func (r *Resolver) loadCached(p *pass, l *lookup) (err error) {
	l.known = artifactOfSource(&p.helmOp.Status, l.source)
	l.lastResult, l.hasFailedBefore, _ = r.schedule.lastResult(l.key, l.lookupKey)
	recorded := recordedArtifact(p.helmOp, p.input.Newest, l)
	if recorded != nil && l.known != nil && l.known.ResolvedArtifact != recorded.ResolvedArtifact &&
		l.known.ResolvedAt.Before(&recorded.ResolvedAt) {
		l.known = recorded
	}
	cached := r.schedule.lastArtifact(l.key, l.source)
	// The status may also be newer: another manager resolved the reference.
	isNewer := cached != nil && (l.known == nil ||
		l.known.ResolvedArtifact != cached.ResolvedArtifact && !l.known.ResolvedAt.After(cached.ResolvedAt.Time))
	if isNewer {
		l.known = cached
	}
	if l.inUse = l.known; l.inUse == nil {
		// After a move or a restore, the status is empty.
		l.inUse = recorded
	}
	if l.inUse == nil {
		l.inUse, err = installedArtifact(p, l)
	}
	return err
}

// isUpToDate reports whether no request is due. Either the interval since the last lookup has not passed, or another
// HelmOp has a result that can be shared.
func (r *Resolver) isUpToDate(p *pass, l *lookup) bool {
	delay, never := r.schedule.due(l.key, l.lookupKey, l.known != nil, r.options.Now())
	if never || delay > 0 {
		l.result = l.lastResult
		if !never {
			p.outcome.retryWithin(delay)
		}
		return true
	}
	shared, ok := r.sharedResult(p.helmOp, l)
	if ok {
		r.storeResult(p, l, shared.resolved, nil, shared.at)
	}
	return ok
}

// sharedResult returns the recent result of another HelmOp. ok is false if it cannot be used.
func (r *Resolver) sharedResult(helmOp *addonsv1.HelmOp, l *lookup) (sharedResult, bool) {
	if l.known == nil || l.isRequested {
		return sharedResult{}, false
	}
	shared, ok := r.schedule.shared(l.key, l.lookupKey, r.interval(helmOp), r.options.Now())
	if ok && l.policy != nil {
		shared.signed, ok = verify.SignersOf(r.options.Verifier, apiutil.KnownArtifacts(&helmOp.Status), shared.artifact.URL,
			shared.artifact.Digest, l.policy)
	}
	return shared, ok
}

// lookUp resolves references and checks the signatures of their artifacts in parallel. It fails only if ctx ends.
func (r *Resolver) lookUp(ctx context.Context, helmOp *addonsv1.HelmOp,
	open []*lookup,
) ([]async.TaskOutcome[resolved], error) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(helmOp)}
	tasks := make([]async.Task[resolved], 0, len(open))
	for _, l := range open {
		tasks = append(tasks, async.Task[resolved]{
			Key:  fmt.Sprintf("%s %s %s %s", request, l.source, l.lookupKey.access, l.request),
			Work: r.task(helmOp, l),
		})
	}
	outcomes, err := r.tasks.RunAll(ctx, request, tasks)
	if err == nil {
		err = ctx.Err()
	}
	return outcomes, err
}

// task returns the background task of a lookup. The task uses no object that a pass may change.
func (r *Resolver) task(helmOp *addonsv1.HelmOp, l *lookup) func(context.Context) (resolved, error) {
	registry, verifier, a := r.options.Registry, r.options.Verifier, l.registryAccess
	known := apiutil.KnownArtifacts(&helmOp.Status)
	source, selected := references.OciSource(helmOp, l.key.ref, a.access), apiutil.Selected(&helmOp.Spec.Source)
	return func(ctx context.Context) (found resolved, err error) {
		began := r.options.Now()
		found, err = resolve(ctx, registry, verifier, a, source, selected, known)
		found.began, found.ended = began, r.options.Now()
		return found, err
	}
}

// resolve looks up a reference and checks the required signatures. known are the artifacts in the status of the HelmOp.
func resolve(ctx context.Context, registry Registry, verifier verify.Verifier, a *registryAccess, source oci.Source,
	selected addonsv1.ResolvedArtifact, known []*addonsv1.ArtifactStatus,
) (found resolved, err error) {
	if err := errors.Join(a.accessErr, a.policyErr); err != nil {
		return found, err
	}
	if a.policy != nil {
		if err := a.policy.Validate(); err != nil {
			return found, fmt.Errorf("spec.source.verify: %w", err)
		}
	}
	if found.artifact, err = registry.Resolve(ctx, source); err != nil {
		return found, err
	}
	found.provenance, found.artifact.Annotations = provenance(found.artifact.Annotations), nil
	// An artifact that cannot be installed is refused after its manifest was read and before its layers are pulled.
	manifest := apiutil.BundleManifest(found.artifact.ConfigMediaType, found.artifact.ArtifactType, found.artifact.Layers)
	found.artifact.Layers = nil
	if found.format, _, err = bundle.Detect(manifest, apiutil.BundleSelection(&selected)); err != nil {
		return found, err
	}
	if a.policy != nil {
		found.signed, err = verify.Verify(ctx, verifier, known, found.artifact.URL, found.artifact.Digest, a.access,
			a.policy)
	}
	return found, err
}

// storeResult stores the result of a lookup and the time of its end. It schedules the next lookup.
func (r *Resolver) storeResult(p *pass, l *lookup, found resolved, err error, at time.Time) {
	helmOp := p.helmOp
	if err == nil {
		err = errors.Join(checkDowngrade(l.key.ref, l.inUse, &found.artifact),
			checkMoved(l.key.ref, l.inUse, &found.artifact))
	}
	l.result.verified, l.result.isFresh = verifiedCondition(helmOp, l, found, err)
	entry := scheduleEntry{lookupKey: l.lookupKey, fixed: l.key.ref.Digest != ""}
	next := at.Add(r.schedule.record(l.key, entry, r.interval(helmOp), at, err != nil, requeue.RetryAfter(err)))
	if next.After(at) {
		p.outcome.retryWithin(max(next.Sub(r.options.Now()), time.Millisecond))
	}
	if err != nil {
		l.result.resolved = metav1.Condition{
			Status: metav1.ConditionFalse, Reason: reasons.For(err, reasons.ArtifactErrors, addonsv1.RegistryErrorReason),
			Message: err.Error(),
		}
	} else {
		if l.known == nil || l.known.Digest != found.artifact.Digest {
			l.result.began, l.result.ended = found.began, found.ended
		}
		p.updateArtifact(l, found, r.options.Now())
		r.schedule.setArtifact(l.key, l.known)
		l.result.resolved = metav1.Condition{
			Status: metav1.ConditionTrue, Reason: addonsv1.ResolvedReason,
			Message: describeArtifact(&l.known.ResolvedArtifact),
		}
	}
	r.schedule.setLastResult(l.key, l.result)
}

// interval returns the time between two lookups of the references of a HelmOp: spec.source.interval, or the minimum of
// the manager if this is longer.
func (r *Resolver) interval(helmOp *addonsv1.HelmOp) time.Duration {
	return max(helmOp.Spec.Source.Interval.Duration, r.options.MinInterval)
}

// raisedInterval returns a note that the minimum of the manager replaces the interval of a HelmOp. It is empty if the
// minimum does not apply, or if the reference is never resolved again.
func (r *Resolver) raisedInterval(helmOp *addonsv1.HelmOp) string {
	own := helmOp.Spec.Source.Interval.Duration
	if own >= r.options.MinInterval || helmOp.Spec.Source.Ref.Digest != "" {
		return ""
	}
	return fmt.Sprintf("; HelmOp looks up the source every %s (--min-source-interval of the manager), not every %s "+
		"(spec.source.interval)", r.options.MinInterval, own)
}

// resolveRequest returns the value of the annotation that requests a lookup, in the form of the status.
func resolveRequest(helmOp *addonsv1.HelmOp) string {
	value := helmOp.Annotations[addonsv1.ResolveRequestedAtAnnotation]
	if len(value) > requeue.MaxResolveRequest {
		value = apiutil.HexDigest(value)
	}
	return value
}
