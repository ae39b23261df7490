// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// releasePass is what one pass over a release knows beyond its scope. Each field says which step sets it.
type releasePass struct {
	*releaseScope

	// target is the connection to the workload cluster. Set by connectCluster.
	target model.Target

	// desired, options and policy are what the spec asks for. Set by readSpec.
	desired model.Desired
	options model.Options
	policy  model.Policy

	// observation is what Helm's records say; remembered is true if that is from an earlier read. Set by observeRecords.
	observation model.Observation
	remembered  bool

	// decision is what to do. Set by assess.
	decision decide.Decision

	// intent is what becomes of a release under deletion. Set by checkIntent.
	intent deletionIntent

	// snapshot is the state of the objects of the release; nil if it is not known. Set by followObjects.
	snapshot *objectwatch.Snapshot

	// unread is why the objects of the newest revision are not known; nil if they are. Set by followObjects.
	unread error

	// unhealthy is true if a new revision did not become healthy. Set by assess.
	unhealthy bool

	// unseeable is true if permissions to watch objects of the release are missing. Set by assess.
	unseeable bool

	// missing is the number of deleted objects of the release. unlisted is true if it is not known of other objects
	// whether they exist. Set by assess.
	missing  int
	unlisted bool

	// isListing is true while the objects are listed for a request to retry, which creates the missing ones again.
	// Set by assess.
	isListing bool

	// drifted is true if objects differ from what the release installed; differences are those that this pass found.
	// Set by checkDrift.
	drifted     bool
	differences []drift.Difference

	// requeueAfter is when the next pass is due without an event; 0 is never.
	requeueAfter time.Duration
}

// due makes the next pass due no later than after a delay.
func (p *releasePass) due(delay time.Duration) {
	if delay > 0 && (p.requeueAfter == 0 || p.requeueAfter > delay) {
		p.requeueAfter = delay
	}
}

// step is one step of a pass. The pass ends with the result if there is one, or with the error; otherwise it continues
// with the next step.
type step func(ctx context.Context, p *releasePass) (end *ctrl.Result, err error)

// run takes the steps of a pass one after the other.
func run(ctx context.Context, p *releasePass, steps ...step) (ctrl.Result, error) {
	for _, step := range steps {
		if end, err := step(ctx, p); end != nil || err != nil {
			return ptr.Deref(end, ctrl.Result{}), err
		}
	}
	return ctrl.Result{RequeueAfter: p.requeueAfter}, nil
}

// after ends a pass; the next one is due after a delay, or with the next event if that is 0.
func after(delay time.Duration) *ctrl.Result { return &ctrl.Result{RequeueAfter: delay} }

// end ends a pass with what a function returned.
func end(result ctrl.Result, err error) (*ctrl.Result, error) { return &result, err }

// reconcileNormal brings the release in the workload cluster to the spec, with the least action that is needed.
func (r *Reconciler) reconcileNormal(ctx context.Context, scope *releaseScope) (ctrl.Result, error) {
	return run(ctx, &releasePass{releaseScope: scope},
		r.checkCluster,
		r.checkPause,
		r.checkShard,
		r.checkOwner,
		r.checkControlPlane,
		r.checkAccess,
		r.addFinalizer,
		r.connectCluster,
		r.readSpec,
		r.observeRecords,
		r.takeOverAfterMove,
		r.followObjects,
		r.assess,
		r.checkDrift,
		r.carryOut,
	)
}

// checkCluster ends the pass if the Cluster is gone or under deletion.
func (r *Reconciler) checkCluster(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	switch {
	case p.cluster == nil:
		report.SetNotReady(p.release, addonsv1.ClusterNotFoundReason, "the Cluster is gone: its release is forgotten")
	case !p.cluster.DeletionTimestamp.IsZero():
		report.SetNotReady(p.release, addonsv1.ClusterDeletingReason,
			"the Cluster is under deletion: its release is left alone")
	default:
		return nil, nil
	}
	r.dropObjectState(client.ObjectKeyFromObject(p.release))
	return after(0), nil
}

// checkPause ends the pass if the release, its HelmOp or its Cluster is paused.
func (r *Reconciler) checkPause(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	why := pauseOf(p.releaseScope)
	report.SetPaused(p.release, why != "", why)
	if why == "" {
		return nil, nil
	}
	p.release.Status.NextTryAt = metav1.Time{}
	return after(0), nil
}

// pauseOf is why nothing may be done for a release; empty if something may.
func pauseOf(scope *releaseScope) string {
	switch {
	case scope.cluster != nil && apiutil.IsClusterPaused(scope.cluster):
		return "the Cluster is paused"
	case scope.helmOp != nil && scope.helmOp.Spec.Paused:
		return "the HelmOp is paused (spec.paused)"
	case scope.helmOp != nil && annotations.HasPaused(scope.helmOp):
		return "the HelmOp has the paused annotation"
	case apiutil.IsChildPaused(scope.release):
		why := "this object has the paused annotation"
		if said := scope.release.Annotations[clusterv1.PausedAnnotation]; said != "" && said != "true" {
			why += ": " + apiutil.Truncate(said, maxPauseReason)
		}
		return why
	default:
		return ""
	}
}

// maxPauseReason bounds the text of an annotation in a message, in bytes.
const maxPauseReason = 512

// checkShard ends the pass if the Cluster is of another shard than the HelmOp.
func (r *Reconciler) checkShard(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.otherShard == "" {
		return nil, nil
	}
	return end(r.reportOtherShard(p.releaseScope), nil)
}

// checkOwner ends the pass if the HelmOp is under deletion: an action that begins now would have to end before the
// release can be uninstalled.
func (r *Reconciler) checkOwner(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.helmOp == nil || p.helmOp.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	report.SetNotReady(p.release, addonsv1.DeletingReason,
		"the HelmOp is under deletion: nothing is begun for its release any more")
	return after(0), nil
}

func (r *Reconciler) checkControlPlane(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if apiutil.IsInitialized(p.cluster) {
		return nil, nil
	}
	report.SetNotReady(p.release, addonsv1.ControlPlaneNotInitializedReason,
		"the control plane of the Cluster is not initialized")
	return after(0), nil
}

// checkAccess ends the pass if the HelmOp may not access the Cluster.
func (r *Reconciler) checkAccess(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if allowed, err := r.mayAccess(ctx, p.releaseScope); !allowed {
		return after(selection.DeniedMemory), err
	}
	return nil, nil
}

// addFinalizer ends the pass if the finalizer was missing: it must be written before there is anything to uninstall.
func (r *Reconciler) addFinalizer(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if controllerutil.AddFinalizer(p.release, addonsv1.HelmOpReleaseFinalizer) {
		return after(time.Millisecond), nil
	}
	return nil, nil
}

// connectCluster sets the target of the pass.
func (r *Reconciler) connectCluster(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	var ok bool
	if p.target, ok = r.connect(ctx, p.release); !ok {
		return after(reconnectRetry(p.release, r.clusters.State(apiutil.ClusterKey(p.release)))), nil
	}
	p.target.Storage = r.storage(p.releaseScope)
	return nil, nil
}

// readSpec sets what the spec of the release asks for.
func (r *Reconciler) readSpec(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	p.policy = releasespec.PolicyOf(&p.release.Spec)
	p.desired, p.options = releasespec.DesiredOf(p.release)
	r.settleRequests(p)
	return nil, r.nameManagementCluster(ctx, p.release, &p.desired)
}

// observeRecords sets what Helm's records in the workload cluster say of the release.
func (r *Reconciler) observeRecords(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.observation, p.remembered = r.remembered(p); !p.remembered {
		var ok bool
		var err error
		if p.observation, err, ok = r.observe(ctx, p.release, p.target, p.desired); !ok {
			return after(0), nil
		}
		if err != nil {
			return end(r.failed(ctx, p.releaseScope, addonsv1.ObservationFailedReason, err))
		}
	}
	reportReachable(p.release)
	return nil, nil
}

// followObjects sets the state of the objects of the release. It ends the pass if the release must not be touched
// before a move of the management cluster.
func (r *Reconciler) followObjects(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	r.follow(ctx, p)
	if r.stopsForMove(ctx, p) {
		return after(0), nil
	}
	return nil, nil
}

// assess judges the health of the release and decides what to do. It ends the pass if a decision of consequence was
// made from a remembered observation: the next pass observes again.
func (r *Reconciler) assess(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	r.assessHealth(p)
	r.listForRetry(p)
	r.decide(p)
	if p.remembered && !recordreads.MayUseCached(p.decision, p.policy) {
		return after(time.Millisecond), nil
	}
	if !isIdle(p.decision) {
		r.reads.Outdate(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)})
	}
	return nil, nil
}

// checkDrift compares the objects of a release that is left as it is, and corrects what differs.
func (r *Reconciler) checkDrift(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if !isIdle(p.decision) {
		return nil, nil
	}
	before := p.decision
	r.assessDrift(ctx, p)
	if r.decide(p); p.decision.Action == model.ActionCorrectDrift {
		r.correctDrift(ctx, p, p.decision)
	}
	p.decision = before
	return nil, nil
}

// decide sets the decision of the pass.
func (r *Reconciler) decide(p *releasePass) {
	p.decision = decide.Next(p.observation, p.desired, p.policy, pastOf(p), r.now())
	p.release.Status.State = string(p.decision.State)
}

// isIdle reports whether a decision leaves the release as it is.
func isIdle(decision decide.Decision) bool {
	switch decision.Action {
	case model.ActionNone, model.ActionWait, model.ActionStall:
		return true
	default:
		return false
	}
}

// carryOut does what was decided, or reports why nothing is done.
func (r *Reconciler) carryOut(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	release, decision := p.release, p.decision
	if decision.Action != model.ActionStall {
		conditions.Delete(release, addonsv1.StalledCondition)
	}
	release.Status.NextTryAt = metav1.NewTime(decision.NextTryAt)
	if isIdle(decision) {
		r.delays.Forget(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)})
	}
	switch decision.Action {
	case model.ActionNone:
		reportInSync(p)
	case model.ActionWait:
		reportWaiting(p, decision)
		p.due(decision.RequeueAfter)
	case model.ActionStall:
		r.reportStalled(p, decision)
	case model.ActionRefuse:
		if reportNotReleased(release, addonsv1.ReleaseConflictReason, decision.Message) {
			r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.ReleaseConflictReason, string(decision.Action),
				decision.Message)
		}
		p.due(conflictRetry)
	default:
		if ok, err := r.mayAct(ctx, p, decision); !ok {
			return nil, err
		}
		noteUnhealthy(release, decision, r.now())
		result, err := r.act(ctx, p, decision)
		p.due(result.RequeueAfter)
		return nil, err
	}
	return nil, nil
}
