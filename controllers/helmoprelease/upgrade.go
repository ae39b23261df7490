// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgraderun"
)

// upgradeCheckTimeout is how long a check for an upgrade of Kubernetes may take. It holds a slot.
const upgradeCheckTimeout = 2 * time.Minute

// upgradeRetry is the retry of a check that failed. It is only in memory: a manager that starts tries at once.
type upgradeRetry struct {
	inputs string
	at     time.Time
}

// checkUpgrade checks the release for an upgrade of Kubernetes, if that is requested and nothing is known about it. It
// never ends the pass, and does not change what Ready depends on.
func (r *Reconciler) checkUpgrade(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	upgrade, ok := clusterlife.UpgradeToCheckOf(p.cluster, p.release)
	if !ok || apiutil.IsManagement(p.object) {
		return nil, nil
	}
	if _, err := apilifecycle.ParseVersion(upgrade.Version); err != nil {
		return nil, r.reportUnchecked(ctx, p, upgrade, "", err)
	}
	running, err := r.runningVersion(ctx, p)
	if err != nil {
		return nil, r.reportUnchecked(ctx, p, upgrade, "", err)
	}
	inputs, err := apiutil.DigestOf(upgrade, running, p.release.Generation, helmRevisionOf(p),
		attempts.RetryRequest(p.release, p.helmOp), p.release.Annotations[addonsv1.PinnedRevisionAnnotation])
	if err != nil {
		return nil, err
	}
	known, retry := p.release.Status.UpgradeCheck, &r.memoryOf(p.release).upgrade
	switch wait := retry.at.Sub(r.now()); {
	case known != nil && known.Inputs == inputs:
		return nil, nil
	case p.hasActed:
		p.due(requeueAtOnce) // The next pass observes the new Helm revision.
		return nil, nil
	case retry.inputs == inputs && wait > 0:
		p.due(wait)
		return nil, nil
	}
	check, err := r.upgradeCheckOf(ctx, p, upgrade)
	if err != nil {
		return nil, r.reportUnchecked(ctx, p, upgrade, inputs, err)
	}
	done, ok := r.slot(p)
	if !ok {
		reportCheckPending(p.release, upgrade, "The check waits for a slot: the concurrency limit of the manager is reached")
		return nil, nil
	}
	defer done()
	bounded, cancel := context.WithTimeout(ctx, upgradeCheckTimeout)
	defer cancel()
	result, err := check.Run(bounded)
	if err != nil {
		return nil, r.reportUnchecked(ctx, p, upgrade, inputs, err)
	}
	r.reportUpgradeCheck(p, upgrade, inputs, &result)
	return nil, nil
}

// runningVersion returns the version that the control plane of the Cluster runs; empty if the Cluster has no
// control-plane object.
func (r *Reconciler) runningVersion(ctx context.Context, p *releasePass) (string, error) {
	controlPlane, err := r.renderer.Objects.ReadRef(ctx, &clusterview.Objects{}, "control-plane", p.cluster.Namespace,
		p.cluster.Spec.ControlPlaneRef)
	return render.RunningVersion(controlPlane), err
}

// helmRevisionOf returns the newest known Helm revision of a release; 0 if there is none.
func helmRevisionOf(p *releasePass) int64 {
	if newest, ok := p.observation.Newest(); ok {
		return int64(newest.Revision)
	}
	if known := p.release.Status.Release; known != nil {
		return known.Revision
	}
	return 0
}

// upgradeCheckOf returns the check of a release, with the artifacts of its HelmOp revision. A pinned release, and one
// that was installed once, need neither values nor charts.
func (r *Reconciler) upgradeCheckOf(ctx context.Context, p *releasePass, upgrade clusterlife.UpgradeToCheck) (
	*upgraderun.Check, error,
) {
	check := &upgraderun.Check{Engine: r.engine, Target: p.target, Release: p.release, Version: upgrade.Version,
		Plan: upgrade.Plan, Kept: upgraderun.Kept(p.release, &p.release.Spec)}
	if check.Kept != "" {
		return check, nil
	}
	if p.helmOp == nil {
		return nil, errors.New("the HelmOp of this release does not exist: the chart cannot be rendered without it")
	}
	revision, err := r.assigned.Revision(ctx, p.release, p.helmOp)
	if err != nil {
		return nil, err
	}
	variants, err := render.NewVariants(&revisionstore.WithRevision(p.helmOp, revision).Spec)
	if err != nil {
		return nil, err
	}
	if check.Values, err = r.renderInto(ctx, p); err != nil {
		return nil, err
	}
	check.IsAhead = p.release.Spec.BeforeClusterUpgrade != nil && p.cluster.Namespace == p.release.Namespace &&
		p.cluster.Spec.Topology.IsDefined()
	check.Desired = func(changed *addonsv1.HelmOpRelease) (model.Desired, model.Options) {
		desired, options := releasespec.DesiredOf(changed)
		desired.ManagementCluster = p.desired.ManagementCluster
		options.PostRender, options.SecretValues = p.options.PostRender, p.options.SecretValues
		return desired, options
	}
	artifactOf := revisionstore.ArtifactsOf(revision)
	check.Artifact = func(_ context.Context, version string) (*addonsv1.ResolvedArtifact, error) {
		chosen, err := variants.Of(p.cluster.Labels, version)
		if err != nil {
			return nil, err
		}
		artifact, err := artifactOf(chosen.Ref)
		if err != nil {
			return nil, fmt.Errorf("the artifact with %s, which %s would use, is not known: %w",
				apiutil.ReferenceText(&chosen.Ref), version, err)
		}
		return artifact, nil
	}
	check.Chart = func(ctx context.Context, artifact *addonsv1.ResolvedArtifact) (*bundle.Chart, error) {
		changed := p.release.DeepCopy()
		changed.Spec.Artifact = *artifact
		return r.charts.Get(ctx, changed, p.helmOp)
	}
	return check, nil
}

// reportUpgradeCheck reports the result of a check, with an Event if something must be done.
func (r *Reconciler) reportUpgradeCheck(p *releasePass, upgrade clusterlife.UpgradeToCheck, inputs string,
	result *upgraderun.Result,
) {
	release := p.release
	release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: upgrade.Version, Inputs: inputs}
	if len(result.Steps) == 0 && !upgrade.IsPending {
		report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, metav1Unknown,
			addonsv1.InvalidKubernetesVersionReason, fmt.Sprintf("The cluster runs %s, which is not older than %q: set the "+
				"annotation %s of the Cluster to a newer minor version, or remove the annotation", result.Running,
				upgrade.Version, addonsv1.CheckUpgradeAnnotation))
		return
	}
	// The name of an object may have a value from a Secret in its name.
	message := helmerr.NewRedactor(nil, p.options.SecretValues).Hide(result.Summary(upgrade.Version))
	todo := result.ToDo()
	if len(todo) == 0 {
		report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, report.True,
			addonsv1.KubernetesUpgradeReadyReason, message)
		return
	}
	if !report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, report.False, string(todo[0].Reason),
		message) {
		return
	}
	text := fmt.Sprintf("Cluster %s, release %s: %s", apiutil.ClusterTitle(release), describe(release), message)
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.KubernetesUpgradeBlockedEvent, "CheckUpgrade", text)
	if p.cluster.Namespace == release.Namespace {
		r.recorder.Eventf(p.object, release, corev1.EventTypeWarning, addonsv1.KubernetesUpgradeBlockedEvent,
			"CheckUpgrade", "%s", apiutil.Truncate(text, report.MaxEventMessage))
	}
}

// reportUnchecked reports why a release is not checked, and schedules the next try. It returns the error only if the
// pass was canceled.
func (r *Reconciler) reportUnchecked(ctx context.Context, p *releasePass, upgrade clusterlife.UpgradeToCheck,
	inputs string, err error,
) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var failure *artifacts.Failure
	var unresolved *reasons.UnresolvedError
	switch {
	case errors.Is(err, artifacts.ErrFetching), errors.Is(err, artifacts.ErrRefetching):
		reportCheckPending(p.release, upgrade, err.Error())
		return nil
	case errors.Is(err, kindcache.ErrPending):
		reportCheckPending(p.release, upgrade, err.Error())
		p.due(clusterview.KindRetry)
		return nil
	case errors.Is(err, assignedvalues.ErrOutdated):
		reportCheckPending(p.release, upgrade, err.Error())
		p.due(requeue.OutdatedRetry)
		return nil
	}
	reason := addonsv1.UpgradeCheckFailedReason
	known := &addonsv1.UpgradeCheck{Version: upgrade.Version}
	_, invalid := apilifecycle.ParseVersion(upgrade.Version)
	switch {
	case invalid != nil:
		reason = addonsv1.InvalidKubernetesVersionReason
		err = fmt.Errorf("the annotation %s of the Cluster: %w", addonsv1.CheckUpgradeAnnotation, invalid)
	case errors.As(err, &unresolved):
		known.Inputs = inputs // Another try has the same result.
	default:
		wait := queue.Spread(downRetry, p.release)
		if errors.As(err, &failure) {
			wait = max(failure.Wait, time.Millisecond)
		}
		r.memoryOf(p.release).upgrade = upgradeRetry{inputs: inputs, at: r.now().Add(wait)}
		p.due(wait)
	}
	p.release.Status.UpgradeCheck = known
	report.SetCondition(p.release, addonsv1.KubernetesUpgradeReadyCondition, metav1Unknown, reason, err.Error())
	return nil
}

// reportCheckPending reports that the check of a release has not ended. The result of an earlier check for the same
// version stays.
func reportCheckPending(release *addonsv1.HelmOpRelease, upgrade clusterlife.UpgradeToCheck, why string) {
	known := conditions.Get(release, addonsv1.KubernetesUpgradeReadyCondition)
	if known != nil && clusterlife.CheckedVersion(release) == upgrade.Version && known.Status != metav1Unknown {
		return
	}
	release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: upgrade.Version}
	report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, metav1Unknown,
		addonsv1.UpgradeCheckPendingReason, why)
}

// settleUpgradeCheck removes the result of a check that is no longer requested. If a pass ended before the check, it
// reports why the release is not checked.
func settleUpgradeCheck(scope *releaseScope) {
	release := scope.release
	upgrade, ok := clusterlife.UpgradeToCheckOf(scope.cluster, release)
	if !ok || !release.DeletionTimestamp.IsZero() || !scope.cluster.DeletionTimestamp.IsZero() ||
		apiutil.IsManagement(scope.object) {
		conditions.Delete(release, addonsv1.KubernetesUpgradeReadyCondition)
		release.Status.UpgradeCheck = nil
		return
	}
	if clusterlife.CheckedVersion(release) == upgrade.Version &&
		conditions.Has(release, addonsv1.KubernetesUpgradeReadyCondition) {
		return
	}
	why := conditions.GetMessage(release, addonsv1.ReadyCondition)
	if conditions.IsTrue(release, addonsv1.PausedCondition) {
		why = conditions.GetMessage(release, addonsv1.PausedCondition)
	}
	release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: upgrade.Version}
	report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, metav1Unknown,
		addonsv1.UpgradeCheckPendingReason, fmt.Sprintf("The release is not checked for Kubernetes %s yet: %s",
			upgrade.Version, why))
}

// checkUpgradeOfDone checks a release that was installed once and is left alone. It does not connect to the cluster
// otherwise, so a cluster that cannot be reached changes only the result of the check.
func (r *Reconciler) checkUpgradeOfDone(ctx context.Context, p *releasePass) error {
	if _, ok := clusterlife.UpgradeToCheckOf(p.cluster, p.release); !ok || !apiutil.IsInitialized(p.cluster) {
		return nil
	}
	scope := *p.releaseScope
	scope.release = p.release.DeepCopy()
	if allowed, err := r.mayAccess(ctx, &scope); !allowed {
		return err
	}
	var ok bool
	if p.target, ok = r.connect(ctx, scope.release); !ok {
		p.due(reconnectRetry(p.release, r.clusters.State(apiutil.ClusterKey(p.release))))
		return nil
	}
	p.target.Storage = r.records.Of(p.release, p.helmOp, r.references)
	p.desired, p.options = releasespec.DesiredOf(p.release)
	_, err := r.checkUpgrade(ctx, p)
	return err
}
