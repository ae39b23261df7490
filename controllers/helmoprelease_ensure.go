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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
)

const (
	// unreachableRetry is how often a cluster that did not answer is tried again. The ClusterCache tells of a new
	// connection sooner; this is for one that it did not yet see break.
	unreachableRetry = 15 * time.Second

	// observeTimeout bounds the one read of a pass over an unchanged release: it is how long a cluster that hangs can
	// keep a worker from the others.
	observeTimeout = 10 * time.Second

	// conflictRetry is how often it is looked whether a conflict has passed.
	conflictRetry = 30 * time.Second

	// outdatedRetry is how often a release whose HelmOp is expected to tell something else looks whether it did. Its
	// event comes sooner; this is for what was taken back meanwhile.
	outdatedRetry = 30 * time.Second

	// pendingTimeout is how old an unfinished action of somebody else must be before it counts as abandoned. Helm's
	// own default timeout is 5 min; nobody is likely to wait for longer than this.
	pendingTimeout = 15 * time.Minute

	// maxHistory bounds status.history.
	maxHistory = 5
)

// Engine brings releases in workload clusters to what is wanted.
type Engine interface {
	Observe(ctx context.Context, target helmclient.Target, namespace, name string) (helmclient.Observation, error)
	Forget(key string)
	Act(ctx context.Context, target helmclient.Target, decision helmclient.Decision, desired helmclient.Desired,
		options helmclient.Options, chart *bundle.Chart, values map[string]any) (helmclient.Result, error)
}

// connect returns the connection to the cluster of a release; ok is false if there is none.
func (r *releaseReconciler) connect(ctx context.Context, release *addonsv1.HelmOpRelease) (target helmclient.Target, ok bool) {
	key := clusterKey(release)
	restConfig, err := r.clusters.GetRESTConfig(ctx, key)
	if err == nil {
		return helmclient.Target{Key: key.String(), Config: restConfig}, true
	}
	if r.clusters.GetHealthCheckingState(ctx, key).LastProbeTime.IsZero() {
		// It was not tried yet, for example because the manager has just started. That says nothing of the cluster.
		return helmclient.Target{}, false
	}
	reportUnreachable(release, "there is no connection to the API server of the Cluster: see that it runs, that the Secret "+
		release.Spec.ClusterRef.Name+"-kubeconfig is valid and that nothing blocks the way; the release goes on when it answers")
	return helmclient.Target{}, false
}

// ensure makes the release what it is wanted to be, with the least action that is needed.
func (r *releaseReconciler) ensure(ctx context.Context, scope *releaseScope, target helmclient.Target) (ctrl.Result, error) {
	release := scope.release
	desired, options := desiredRelease(release)
	observation, err := r.observe(ctx, target, desired)
	if err != nil {
		return r.failed(ctx, scope, addonsv1.ObservationFailedReason, err)
	}
	reportReachable(release)
	policy := helmclient.Policy{
		TakeOwnership:  options.Install.TakeOwnership,
		PendingTimeout: pendingTimeout,
	}
	decision := helmclient.Decide(observation, desired, policy, helmclient.Past{}, r.now())
	switch decision.Action {
	case helmclient.ActionNone:
		reportInSync(release, observation)
		return ctrl.Result{}, nil
	case helmclient.ActionWait:
		reportNotReleased(release, addonsv1.ReleasePendingReason, decision.Message)
		return ctrl.Result{RequeueAfter: decision.RequeueAfter}, nil
	case helmclient.ActionRefuse:
		if reportNotReleased(release, addonsv1.ReleaseConflictReason, decision.Message) {
			r.event(scope, corev1.EventTypeWarning, addonsv1.ReleaseConflictReason, string(decision.Action), decision.Message)
		}
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case helmclient.ActionUninstall:
		return r.finishUninstall(ctx, scope, target, decision, desired, options)
	default:
		return r.act(ctx, scope, target, decision, desired, options)
	}
}

// observe reads what the cluster says of a release.
func (r *releaseReconciler) observe(ctx context.Context, target helmclient.Target, desired helmclient.Desired) (helmclient.Observation, error) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	return r.engine.Observe(ctx, target, desired.Namespace, desired.Name)
}

// act carries out a decision: it renders, pulls, loads, and calls Helm.
func (r *releaseReconciler) act(ctx context.Context, scope *releaseScope, target helmclient.Target, decision helmclient.Decision,
	desired helmclient.Desired, options helmclient.Options,
) (ctrl.Result, error) {
	release := scope.release
	attempt, err := digestOf(desired)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait := retryDelay(&release.Status, attempt, r.now()); wait > 0 {
		reportWaiting(release, decision)
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if scope.helmOp == nil {
		setNotReady(release, addonsv1.UpdatingReason, "the HelmOp of this release is gone: nobody tells its values")
		return ctrl.Result{RequeueAfter: outdatedRetry}, nil
	}
	rendered, secretValues, err := r.renderer.values(ctx, scope.helmOp, scope.object, scope.cluster)
	if err != nil {
		return r.failed(ctx, scope, renderReason(err), err)
	}
	if rendered.Digest != release.Spec.ValuesDigest {
		// The HelmOp wants something else by now; it is about to say so in the spec.
		reportNotReleased(release, addonsv1.UpdatingReason, "the HelmOp is about to update this release")
		return ctrl.Result{RequeueAfter: outdatedRetry}, nil
	}
	chart, err := r.chart(ctx, scope)
	if err != nil {
		return r.chartFailed(ctx, scope, err)
	}
	options.SecretValues = secretValues
	done, ok := r.slots.acquire(target.Key, desired.Owner)
	if !ok {
		return ctrl.Result{RequeueAfter: slotRetry}, nil
	}
	defer done()
	started := r.now()
	result, err := r.engine.Act(ctx, target, decision, desired, options, chart, rendered.Values)
	observeAction(verbOf(decision.Action), started, r.now(), err)
	r.recordAttempt(scope, decision, result, attempt, err)
	if err != nil {
		return r.actionFailed(ctx, scope, decision, result, err)
	}
	r.reportReleased(scope, decision, result)
	return ctrl.Result{}, nil
}

// finishUninstall ends an uninstallation that a crash cut off, so that the release can be installed anew.
func (r *releaseReconciler) finishUninstall(ctx context.Context, scope *releaseScope, target helmclient.Target, decision helmclient.Decision,
	desired helmclient.Desired, options helmclient.Options,
) (ctrl.Result, error) {
	attempt, err := digestOf(desired, verbUninstall)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait := retryDelay(&scope.release.Status, attempt, r.now()); wait > 0 {
		reportWaiting(scope.release, decision)
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	done, ok := r.slots.acquire(target.Key, desired.Owner)
	if !ok {
		return ctrl.Result{RequeueAfter: slotRetry}, nil
	}
	defer done()
	started := r.now()
	result, err := r.engine.Act(ctx, target, decision, desired, options, nil, nil)
	observeAction(verbUninstall, started, r.now(), err)
	r.recordAttempt(scope, decision, result, attempt, err)
	if err != nil {
		return r.actionFailed(ctx, scope, decision, result, err)
	}
	return ctrl.Result{RequeueAfter: time.Millisecond}, nil
}

// uninstall ends the release in the workload cluster and lets the object go.
func (r *releaseReconciler) uninstall(ctx context.Context, scope *releaseScope, target helmclient.Target) (ctrl.Result, error) {
	release := scope.release
	desired, options := desiredRelease(release)
	if scope.helmOp != nil {
		// They may be changed to help an uninstallation that is stuck.
		options.Uninstall = engineOptions(&scope.helmOp.Spec.ReleaseOptions).Uninstall
	}
	observation, err := r.observe(ctx, target, desired)
	if err != nil {
		return r.failed(ctx, scope, addonsv1.ObservationFailedReason, err)
	}
	reportReachable(release)
	decision := helmclient.DecideUninstall(observation, desired, helmclient.Policy{PendingTimeout: pendingTimeout}, r.now())
	switch decision.Action {
	case helmclient.ActionUninstall:
	case helmclient.ActionWait:
		setNotReady(release, addonsv1.ReleasePendingReason, decision.Message)
		return ctrl.Result{RequeueAfter: decision.RequeueAfter}, nil
	default:
		// Nothing there, or what is there is not ours.
		ctrl.LoggerFrom(ctx).Info("Nothing to uninstall", "why", decision.Message)
		controllerutil.RemoveFinalizer(release, addonsv1.HelmOpReleaseFinalizer)
		return ctrl.Result{}, nil
	}
	attempt, err := digestOf(desired, verbUninstall, options.Uninstall)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait := retryDelay(&release.Status, attempt, r.now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	done, ok := r.slots.acquire(target.Key, desired.Owner)
	if !ok {
		return ctrl.Result{RequeueAfter: slotRetry}, nil
	}
	defer done()
	setNotReady(release, addonsv1.DeletingReason, "the release is being uninstalled")
	started := r.now()
	result, err := r.engine.Act(ctx, target, decision, desired, options, nil, nil)
	observeAction(verbOf(decision.Action), started, r.now(), err)
	r.recordAttempt(scope, decision, result, attempt, err)
	if err != nil {
		return r.actionFailed(ctx, scope, decision, result, err)
	}
	r.event(scope, corev1.EventTypeNormal, addonsv1.UninstalledEvent, "Uninstall",
		fmt.Sprintf("Uninstalled release %s from Cluster %s", describe(release), release.Spec.ClusterRef.Name))
	controllerutil.RemoveFinalizer(release, addonsv1.HelmOpReleaseFinalizer)
	return ctrl.Result{}, nil
}

// failed reports an error that changed nothing in the workload cluster and decides when to try again.
func (r *releaseReconciler) failed(ctx context.Context, scope *releaseScope, fallback string, err error) (ctrl.Result, error) {
	release := scope.release
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err()
	}
	if errors.Is(err, helmclient.ErrStale) {
		// Somebody else changed the release meanwhile: look again, less and less often.
		reportNotReleased(release, addonsv1.UpdatingReason, err.Error())
		return ctrl.Result{}, err
	}
	reason := reasonFor(err, engineErrors, fallback)
	if reason == addonsv1.ClusterUnreachableReason || errors.Is(err, clustercache.ErrClusterNotConnected) {
		reportUnreachable(release, err.Error())
		return ctrl.Result{RequeueAfter: unreachableRetry}, nil
	}
	release.Status.LastError = truncate(err.Error(), maxConditionMessage)
	if reportNotReleased(release, reason, err.Error()) {
		r.event(scope, corev1.EventTypeWarning, reason, "Reconcile",
			fmt.Sprintf("Cluster %s, release %s: %v", release.Spec.ClusterRef.Name, describe(release), err))
	}
	return ctrl.Result{}, err
}

// actionFailed reports an action that failed. One that changed the cluster counts, and the next waits for longer and
// longer; one that did not is tried again as any other error.
func (r *releaseReconciler) actionFailed(ctx context.Context, scope *releaseScope, decision helmclient.Decision,
	result helmclient.Result, err error,
) (ctrl.Result, error) {
	outcome, failure := r.failed(ctx, scope, failureReason(decision), err)
	if !result.StorageChanged {
		return outcome, failure
	}
	return ctrl.Result{RequeueAfter: retryBackoff(scope.release.Status.Failures)}, nil
}

// desiredRelease is the spec of a release as the engine knows it.
func desiredRelease(release *addonsv1.HelmOpRelease) (helmclient.Desired, helmclient.Options) {
	options := engineOptions(&release.Spec.ReleaseOptions)
	owner := metav1.GetControllerOf(release)
	ownerName := ""
	if owner != nil {
		ownerName = owner.Name
	}
	return helmclient.Desired{
		Name:           release.Spec.Release.Name,
		Namespace:      release.Spec.Release.Namespace,
		Owner:          release.Namespace + "." + ownerName,
		UID:            string(release.UID),
		ArtifactDigest: artifactIdentity(&release.Spec.Artifact),
		ValuesDigest:   release.Spec.ValuesDigest,
		OptionsDigest:  helmclient.OptionsDigest(options),
	}, options
}

func engineOptions(spec *addonsv1.ReleaseOptions) helmclient.Options {
	var options helmclient.Options
	if install := spec.Install; install != nil {
		options.Install = helmclient.InstallOptions{
			Timeout:                  ptr.Deref(install.Timeout, metav1.Duration{}).Duration,
			DisableHooks:             ptr.Deref(install.DisableHooks, false),
			CreateNamespace:          install.CreateNamespace,
			CRDs:                     crdPolicy(install.CRDs),
			TakeOwnership:            ptr.Deref(install.TakeOwnership, false),
			DisableOpenAPIValidation: ptr.Deref(install.DisableOpenAPIValidation, false),
		}
	}
	options.Upgrade.TakeOwnership = options.Install.TakeOwnership
	if upgrade := spec.Upgrade; upgrade != nil {
		options.Upgrade.Timeout = ptr.Deref(upgrade.Timeout, metav1.Duration{}).Duration
		options.Upgrade.DisableHooks = ptr.Deref(upgrade.DisableHooks, false)
		options.Upgrade.Force = ptr.Deref(upgrade.Force, false)
		options.Upgrade.CleanupOnFail = ptr.Deref(upgrade.CleanupOnFail, false)
		options.Upgrade.DisableOpenAPIValidation = ptr.Deref(upgrade.DisableOpenAPIValidation, false)
		if upgrade.MaxHistory != nil {
			options.Upgrade.MaxHistory = ptr.To(int(*upgrade.MaxHistory))
		}
	}
	if uninstall := spec.Uninstall; uninstall != nil {
		options.Uninstall = helmclient.UninstallOptions{
			Timeout:      ptr.Deref(uninstall.Timeout, metav1.Duration{}).Duration,
			DisableHooks: ptr.Deref(uninstall.DisableHooks, false),
			KeepHistory:  ptr.Deref(uninstall.KeepHistory, false),
		}
	}
	return options
}

// crdPolicy is the policy as the engine knows it.
func crdPolicy(policy addonsv1.CRDPolicy) helmclient.CRDPolicy {
	if policy == addonsv1.CRDPolicyCreate {
		return helmclient.CRDsCreate
	}
	return helmclient.CRDPolicy(policy)
}

// firstServed tells when the control plane of a Cluster became initialized, if that was after the HelmOp was created:
// only then is the time to the first deployment this program's.
func firstServed(cluster *clusterv1.Cluster, helmOp *addonsv1.HelmOp) (time.Time, bool) {
	since := conditions.GetLastTransitionTime(cluster, clusterv1.ClusterControlPlaneInitializedCondition)
	if since == nil || helmOp == nil || since.Time.Before(helmOp.CreationTimestamp.Time) {
		return time.Time{}, false
	}
	return since.Time, true
}
