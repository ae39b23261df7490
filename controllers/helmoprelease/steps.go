// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/actiongate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drifttracking"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
)

// releasePass is the state of one pass over a release, in addition to its scope. Each field names the step that sets
// it.
type releasePass struct {
	*releaseScope

	// target is the connection to the workload cluster. Set by connectCluster.
	target model.Target

	// desired, options and policy are the spec, converted to the types of the engine. Set by readSpec.
	desired model.Desired
	options model.Options
	policy  model.Policy

	// mayBeNew is true if a list of all records of the Cluster may show that the release has none. A deletion never
	// relies on such a list. Set by checkNew.
	mayBeNew bool

	// observation is the state in Helm's records. kept is nil unless the state was kept from an earlier pass. Set by
	// observeRecords.
	observation model.Observation
	kept        *recordreads.Result

	// mark is the moment before an action of this pass. Set by assess.
	mark recordreads.Mark

	// decision is the next action. Set by assess.
	decision decide.Decision

	// intent is why a HelmOpRelease is under deletion. Set by checkIntent.
	intent deletionintent.Intent

	// snapshot has the states of the release's objects; nil if they are not known. Set by followObjects.
	snapshot *objectwatch.Snapshot

	// unread is the cause if the objects of the newest revision are not known; otherwise nil. Set by followObjects.
	unread error

	// unhealthy is true if a new revision did not become healthy. Set by assess.
	unhealthy bool

	// unwatchable is true if the manager has no permission to watch some objects of the release. Set by assess.
	unwatchable bool

	// missing is the number of deleted objects of the release. unlisted is true if the existence of other objects is
	// not known. Set by assess.
	missing  int
	unlisted bool

	// isListing is true while a retry request lists the objects. The retry then creates missing objects again. Set by
	// assess.
	isListing bool

	// drifted is true if objects differ from the installed manifest. drift is the comparison of this pass. Set by
	// checkDrift.
	drifted bool
	drift   *drifttracking.Pass

	// hasActed is true if an action of this pass changed Helm's records. Set by perform.
	hasActed bool

	// installedOnce is true if reconcileStrategy permits no more changes of the release. Set by carryOut.
	installedOnce bool

	// requeueAfter is the delay until the next pass if no event comes first; 0 is never.
	requeueAfter time.Duration
}

// due schedules the next pass no later than after a delay. A delay of 0 or less has no effect.
func (p *releasePass) due(delay time.Duration) {
	p.requeueAfter = requeue.Sooner(p.requeueAfter, delay)
}

// subject returns the release with its desired state, for the count of attempts.
func (p *releasePass) subject() *attempts.Subject {
	return &attempts.Subject{Release: p.release, HelmOp: p.helmOp, Desired: p.desired}
}

// past returns the results of earlier attempts at the desired state.
func (p *releasePass) past() model.Past {
	newest, _ := p.observation.Newest()
	return p.subject().Past(attempts.Seen{
		Newest: newest.Revision, IsUnhealthy: p.unhealthy, IsUnwatchable: p.unwatchable, HasDrifted: p.drifted,
		IsRestoreRequested: isRestoreRequested(p),
	})
}

// step is one step of a pass. If it returns a result or an error, the pass ends. Otherwise, the next step follows.
type step func(ctx context.Context, p *releasePass) (end *ctrl.Result, err error)

// run takes the steps of a pass in order.
func run(ctx context.Context, p *releasePass, steps ...step) (ctrl.Result, error) {
	for _, step := range steps {
		if end, err := step(ctx, p); end != nil || err != nil {
			return ptr.Deref(end, ctrl.Result{}), err
		}
	}
	return ctrl.Result{RequeueAfter: p.requeueAfter}, nil
}

// after returns a result that schedules the next pass after a delay. With the delay 0, only an event starts the next
// pass.
func after(delay time.Duration) *ctrl.Result { return &ctrl.Result{RequeueAfter: delay} }

// end converts the results of a function into the results of a last step.
func end(result ctrl.Result, err error) (*ctrl.Result, error) { return &result, err }

// reconcileNormal brings the release to the desired state, with the smallest action that achieves it.
func (r *Reconciler) reconcileNormal(ctx context.Context, scope *releaseScope) (ctrl.Result, error) {
	return run(ctx, &releasePass{releaseScope: scope},
		r.checkCluster,
		r.checkPause,
		r.checkShard,
		r.checkOwner,
		r.checkInstalledOnce,
		r.checkControlPlane,
		r.checkAccess,
		r.addFinalizer,
		r.keepNextTry,
		r.connectCluster,
		r.readSpec,
		r.checkNew,
		r.observeRecords,
		r.checkSameCluster,
		r.takeOverAfterMove,
		r.installAfterMove,
		r.leaveInstalledOnce,
		r.followObjects,
		r.assess,
		r.checkDrift,
		r.carryOut,
		r.checkUpgrade,
		r.finishOnce,
	)
}

// checkCluster ends the pass if the Cluster does not exist or is under deletion.
func (r *Reconciler) checkCluster(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	awaits, err := r.awaitCluster(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case awaits:
	case p.cluster == nil:
		report.NotConnecting(p.release, addonsv1.ClusterNotFoundReason,
			"The Cluster does not exist: its HelmOpRelease is removed")
	case !p.cluster.DeletionTimestamp.IsZero():
		report.NotConnecting(p.release, addonsv1.ClusterDeletingReason,
			"The Cluster is being deleted: HelmOp does not change its release")
	default:
		return nil, nil
	}
	r.dropObjectState(client.ObjectKeyFromObject(p.release))
	return after(0), nil
}

// checkPause ends the pass if the release, its HelmOp or its Cluster is paused.
func (r *Reconciler) checkPause(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	why := apiutil.PauseReason(p.cluster, p.helmOp, p.release)
	report.SetPaused(p.release, why != "", why)
	if why == "" {
		return nil, nil
	}
	if conditions.GetReason(p.release, addonsv1.ReadyCondition) == addonsv1.ClusterNotFoundReason {
		// The release has waited for its Cluster. Nothing else is known of it yet.
		conditions.Delete(p.release, addonsv1.ReadyCondition)
	}
	r.readAgain(p.release) // Users pause a release to change it by hand.
	return after(0), nil
}

// checkShard ends the pass if the Cluster is of another shard than the HelmOp.
func (r *Reconciler) checkShard(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.otherShard == "" {
		return nil, nil
	}
	return end(r.reportOtherShard(p.releaseScope), nil)
}

// otherShardRetry is the delay between two checks whether a Cluster of another shard was deleted. This manager gets no
// event of the deletion.
const otherShardRetry = 5 * time.Minute

// reportOtherShard reports that a release is not reconciled because its Cluster has another shard. A change of the
// shard label causes an event, but the deletion of the Cluster does not. So the next pass is due after a delay: if the
// Cluster is deleted, the HelmOpRelease can be removed.
func (r *Reconciler) reportOtherShard(scope *releaseScope) ctrl.Result {
	r.dropObjectState(client.ObjectKeyFromObject(scope.release))
	report.SetPaused(scope.release, false, "")
	report.NotConnecting(scope.release, addonsv1.OtherShardReason, scope.otherShard)
	if !scope.release.DeletionTimestamp.IsZero() {
		return ctrl.Result{RequeueAfter: queue.Spread(downRetry, scope.release)}
	}
	return ctrl.Result{RequeueAfter: queue.Spread(otherShardRetry, scope.release)}
}

// checkOwner ends the pass if no HelmOp controls the release, or if the HelmOp is under deletion. Without the HelmOp,
// its pause and its maintenance are not known, and Helm's records seem to have another owner. An action during the
// deletion of the HelmOp would delay the uninstallation of the release.
func (r *Reconciler) checkOwner(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	switch {
	case apiutil.HelmOpOf(p.release) == "":
		report.NotConnecting(p.release, addonsv1.OwnerNotFoundReason, withoutOwner)
	case p.helmOp != nil && !p.helmOp.DeletionTimestamp.IsZero():
		// ClusterReachable stays, because the plan of the deletions reads it.
		report.SetNotReady(p.release, addonsv1.DeletingReason,
			"The HelmOp is being deleted: HelmOp only uninstalls the release")
	default:
		return nil, nil
	}
	return after(0), nil
}

// withoutOwner is the message about a release that no HelmOp controls.
const withoutOwner = "This HelmOpRelease has no owner reference to a HelmOp, for example after a restore: HelmOp " +
	"does not change the release. The HelmOp that selects the Cluster sets the reference again, unless it is paused. If " +
	"there is no such HelmOp, restore it, or delete this HelmOpRelease: the release then stays installed"

// checkInstalledOnce ends the pass if the release was installed once and must not be changed any more. An annotation
// records this, because it survives a restart and clusterctl move. With another strategy, the annotation has no effect.
// After a move or a restore, the pass continues up to the takeover of Helm's records: otherwise they would belong to
// the former management cluster for ever, and a deletion there would uninstall the release.
func (r *Reconciler) checkInstalledOnce(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if !releasespec.IsInstalledOnce(&p.release.Spec) {
		delete(p.release.Annotations, addonsv1.InstalledOnceAnnotation)
	}
	if !releasespec.IsDone(&p.release.Spec, p.release) {
		return nil, nil
	}
	if err := r.nameManagementCluster(ctx, p.release, &p.desired); err != nil {
		return nil, err
	}
	if len(p.desired.FormerManagementClusters) > 0 {
		return nil, nil
	}
	return r.leaveInstalledOnce(ctx, p)
}

// leaveInstalledOnce ends the pass over a release that was installed once.
func (r *Reconciler) leaveInstalledOnce(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if !releasespec.IsDone(&p.release.Spec, p.release) {
		return nil, nil
	}
	r.reportInstalledOnce(p)
	err := r.checkUpgradeOfDone(ctx, p)
	return after(p.requeueAfter), err
}

// reportInstalledOnce reports that the release is complete. It drops the watches and their results.
func (r *Reconciler) reportInstalledOnce(p *releasePass) {
	r.unfollow(p.release)
	releasestatus.InstalledOnce(p.release)
}

func (r *Reconciler) checkControlPlane(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if apiutil.IsInitialized(p.cluster) {
		return nil, nil
	}
	report.NotConnecting(p.release, addonsv1.ControlPlaneNotInitializedReason,
		"The control plane of the Cluster is not initialized")
	return after(0), nil
}

// checkAccess ends the pass if the HelmOp may not access the Cluster.
func (r *Reconciler) checkAccess(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if allowed, err := r.mayAccess(ctx, p.releaseScope); !allowed {
		return after(selection.DeniedTTL), err
	}
	return nil, nil
}

// addFinalizer adds a missing finalizer and then ends the pass. The finalizer must be stored before the installation.
// The status is not written: the next pass follows at once, reads the state of the release and writes the status.
func (r *Reconciler) addFinalizer(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if controllerutil.AddFinalizer(p.release, addonsv1.HelmOpReleaseFinalizer) {
		p.leavesStatus = true
		return after(time.Millisecond), nil
	}
	return nil, nil
}

// keepNextTry restores the stored time of the next try. A later step sets or removes the time. Until then, the time
// must stay: a pass that ends because the records are being read would otherwise remove it, and the next pass write it
// again.
func (r *Reconciler) keepNextTry(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	p.release.Status.NextTryAt = p.before.Status.NextTryAt
	return nil, nil
}

// connectCluster sets the target of the pass.
func (r *Reconciler) connectCluster(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	var ok bool
	if p.target, ok = r.connect(ctx, p.release, p.cluster); !ok {
		return after(reconnectRetry(p.release, r.clusters.State(apiutil.ClusterKey(p.release)))), nil
	}
	p.target.Storage = r.records.Of(p.release, p.helmOp, r.references)
	return nil, nil
}

// readSpec sets the desired state, the options and the policy from the spec of the release.
func (r *Reconciler) readSpec(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	p.policy = releasespec.PolicyOf(&p.release.Spec)
	p.desired, p.options = releasespec.DesiredOf(p.release)
	p.subject().InitRetryRequest()
	return nil, r.nameManagementCluster(ctx, p.release, &p.desired)
}

// observeRecords sets the observation of Helm's records.
func (r *Reconciler) observeRecords(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	observe := r.observeFirst
	if p.mayBeNew {
		observe = r.observeNew
	}
	if kept, ok := r.remembered(p); ok {
		p.observation, p.kept = kept.Observation, kept
	} else {
		var err error
		began := p.trace.Now()
		if p.observation, err, ok = observe(ctx, p); !ok {
			p.trace.Wait(tracing.SpanObserve, began)
			return after(0), nil
		}
		p.trace.Step(tracing.SpanObserve, began)
		if err != nil {
			return end(r.failed(ctx, p.releaseScope, failures.Observing, err))
		}
	}
	releasestatus.Reachable(p.release)
	return nil, nil
}

// followObjects watches the objects of the release and sets their states. It ends the pass if clusterctl move has moved
// objects of the release.
func (r *Reconciler) followObjects(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	r.follow(ctx, p)
	stops, err := r.stopsForMove(ctx, p)
	if err != nil {
		return nil, err
	}
	if stops {
		return after(0), nil
	}
	return nil, nil
}

// assess sets the health of the release and the decision. If the decision needs a new observation, assess ends the
// pass, and the next pass observes again.
func (r *Reconciler) assess(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	r.assessHealth(p)
	r.listForRetry(p)
	r.decide(p)
	if p.kept != nil && !p.mayUseKept() {
		r.memoryOf(p.release).Records.Outdate()
		r.slots.Keep(client.ObjectKeyFromObject(p.release))
		return after(time.Millisecond), nil
	}
	if !isIdle(p.decision) {
		p.mark = r.memoryOf(p.release).Records.Outdate()
	}
	return nil, nil
}

// checkDrift compares the objects of a release that needs no Helm action, and corrects the differences.
func (r *Reconciler) checkDrift(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if !isIdle(p.decision) {
		return nil, nil
	}
	before := p.decision
	r.assessDrift(ctx, p)
	if r.decide(p); p.decision.Action == model.ActionCorrectDrift {
		r.correctDrift(ctx, p)
	}
	p.decision = before
	return nil, nil
}

// decide sets the decision of the pass and the state of the release.
func (r *Reconciler) decide(p *releasePass) {
	p.decision = decide.Next(p.observation, p.desired, p.policy, p.past(), r.now())
	p.release.Status.State = string(p.decision.State)
}

// isIdle reports whether a decision does not change the release.
func isIdle(decision decide.Decision) bool {
	switch decision.Action {
	case model.ActionNone, model.ActionWait, model.ActionStall:
		return true
	default:
		return false
	}
}

// carryOut carries out the decision, or reports why no action follows.
func (r *Reconciler) carryOut(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	release, decision := p.release, p.decision
	p.subject().NoteLoss(p.observation, p.policy.TakeOwnership)
	if decision.Action != model.ActionStall {
		conditions.Delete(release, addonsv1.StalledCondition)
	}
	release.Status.NextTryAt = metav1.NewTime(decision.NextTryAt)
	if isIdle(decision) {
		r.memoryOf(release).Delay.Forget()
		r.memoryOf(release).Preparation.PauseOwn(&release.Status)
	}
	switch decision.Action {
	case model.ActionNone:
		// The release may have returned to its installed artifact and values. Then nothing is prepared any more.
		r.memoryOf(release).Preparation.End(&release.Status)
		if decision.Reason == decide.ReasonInstalledOnce {
			p.installedOnce = true
			return nil, nil
		}
		reportInSync(p)
		r.endListing(p)
	case model.ActionWait:
		reportWaiting(p, decision)
		p.due(decision.RequeueAfter)
	case model.ActionStall:
		r.reportStalled(p, decision)
	case model.ActionRefuse:
		// A pass that found no release may have begun a preparation.
		r.memoryOf(release).Preparation.End(&release.Status)
		r.reportRefused(p, decision)
		p.due(cmp.Or(decision.RequeueAfter, conflictRetry))
	default:
		if actiongate.AwaitsRollout(release, p.observation, p.desired, decision) {
			releasestatus.NotReleased(release, addonsv1.AdoptionPendingReason, adoptionPending)
			return nil, nil
		}
		if r.waitsForMaintenance(p, decision) {
			return nil, nil
		}
		if ok, err := r.mayAct(ctx, p, decision); !ok {
			return nil, err
		}
		releasestatus.NoteUnhealthy(release, decision, r.now())
		result, err := r.act(ctx, p, decision)
		p.due(result.RequeueAfter)
		return nil, err
	}
	return nil, nil
}

// finishOnce marks a release that is installed only once as complete when it is Ready.
func (r *Reconciler) finishOnce(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if !releasespec.IsInstalledOnce(&p.release.Spec) || !p.installedOnce && !releasestatus.IsReady(p.release) {
		return nil, nil
	}
	metav1.SetMetaDataAnnotation(&p.release.ObjectMeta, addonsv1.InstalledOnceAnnotation, "true")
	r.reportInstalledOnce(p)
	return after(0), nil
}
