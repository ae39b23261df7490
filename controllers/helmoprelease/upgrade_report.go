// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgraderun"
)

// reportUpgradeCheck reports the result of a check, with an Event if something must be done.
func (r *Reconciler) reportUpgradeCheck(p *releasePass, c *upgradeCheck, result *upgraderun.Result) {
	release := p.release
	release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: c.Version, Inputs: c.inputs}
	// The name of an object may have a value from a Secret in its name.
	message := result.Summary(c.Version, helmerr.NewRedactor(nil, p.options.SecretValues).Hide)
	if len(result.Steps) == 0 && !clusterlife.IsNewMinor(c.Version, result.Running) {
		// The upgrade is over. Another result would block what waits for the condition.
		report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, report.True,
			addonsv1.KubernetesUpgradeReadyReason, message)
		return
	}
	if len(result.Steps) == 0 {
		report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, metav1Unknown,
			addonsv1.InvalidKubernetesVersionReason, fmt.Sprintf("The cluster runs %s, which is newer than %q: set the "+
				"annotation %s of the Cluster to a newer minor version, or remove the annotation", result.Running,
				c.Version, addonsv1.CheckUpgradeAnnotation))
		return
	}
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
	if p.cluster.Namespace == release.Namespace &&
		r.budgets.TakeFor(p.object.GetUID(), addonsv1.KubernetesUpgradeBlockedEvent) {
		r.recorder.Eventf(p.object, release, corev1.EventTypeWarning, addonsv1.KubernetesUpgradeBlockedEvent,
			"CheckUpgrade", "%s", apiutil.Truncate(text, report.MaxEventMessage))
	}
}

// reportNoNewMinor reports a pending upgrade to another patch version or build, which needs no check.
func reportNoNewMinor(release *addonsv1.HelmOpRelease, c *upgradeCheck) {
	release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: c.Version}
	report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, report.True,
		addonsv1.KubernetesUpgradeReadyReason,
		fmt.Sprintf("The upgrade to %s has no new minor version, so it removes no API", c.Version))
}

// reportUnchecked reports why a release is not checked, and schedules the next try. It returns the error only if the
// pass was canceled.
func (r *Reconciler) reportUnchecked(ctx context.Context, p *releasePass, c *upgradeCheck, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	message := helmerr.NewRedactor(nil, p.options.SecretValues).Hide(err.Error())
	switch {
	case errors.Is(err, artifacts.ErrFetching), errors.Is(err, artifacts.ErrRefetching):
		reportCheckPending(p.release, c, message)
		return nil
	case errors.Is(err, kindcache.ErrPending):
		reportCheckPending(p.release, c, message)
		p.due(clusterview.KindRetry)
		return nil
	case errors.Is(err, assignedvalues.ErrOutdated), apierrors.IsConflict(err):
		reportCheckPending(p.release, c, message)
		p.due(requeue.OutdatedRetry)
		return nil
	}
	reason, known := addonsv1.UpgradeCheckFailedReason, &addonsv1.UpgradeCheck{Version: c.Version}
	_, invalid := apilifecycle.ParseVersion(c.Version)
	var unresolved *reasons.UnresolvedError
	switch {
	case invalid != nil || errors.Is(err, apilifecycle.ErrTooManySteps):
		reason, known.Inputs = addonsv1.InvalidKubernetesVersionReason, c.inputs
		if !c.IsPending {
			message = fmt.Sprintf("the annotation %s of the Cluster: %s", addonsv1.CheckUpgradeAnnotation, message)
		}
	case errors.As(err, &unresolved):
		known.Inputs = c.inputs // Another try has the same result.
	case c.inputs == "":
		p.due(requeue.ObjectReadRetry)
		if hasUpgradeResult(p.release, c) {
			return nil
		}
	default:
		p.due(r.failUpgradeCheck(p.release, c, err))
	}
	p.release.Status.UpgradeCheck = known
	report.SetCondition(p.release, addonsv1.KubernetesUpgradeReadyCondition, metav1Unknown, reason, message)
	return nil
}

// failUpgradeCheck counts a failed check, and returns the wait before the next try.
func (r *Reconciler) failUpgradeCheck(release *addonsv1.HelmOpRelease, c *upgradeCheck, err error) time.Duration {
	retry := &r.memoryOf(release).upgrade
	if retry.inputs != c.inputs {
		*retry = upgradeRetry{inputs: c.inputs}
	}
	retry.failures++
	wait := retry.wait(release)
	var failure *artifacts.Failure
	if errors.As(err, &failure) {
		wait = max(failure.Wait, time.Millisecond)
	}
	retry.at = r.now().Add(wait)
	return wait
}

// hasUpgradeResult reports whether a release has a result for the version of a check that still counts. True counts
// only for the present spec, and for the same inputs if they are known. A failure counts until the next result, so
// that retries do not change the condition.
func hasUpgradeResult(release *addonsv1.HelmOpRelease, c *upgradeCheck) bool {
	known := conditions.Get(release, addonsv1.KubernetesUpgradeReadyCondition)
	if known == nil || clusterlife.CheckedVersion(release) != c.Version {
		return false
	}
	isCurrent := known.ObservedGeneration == release.Generation
	switch known.Status {
	case report.False:
		return true
	case report.True:
		return isCurrent && (c.inputs == "" || release.Status.UpgradeCheck.Inputs == c.inputs)
	default:
		return isCurrent && known.Reason != addonsv1.UpgradeCheckPendingReason
	}
}

// reportCheckPending reports that the check of a release has not ended. A result that still counts stays.
func reportCheckPending(release *addonsv1.HelmOpRelease, c *upgradeCheck, why string) {
	if hasUpgradeResult(release, c) {
		return
	}
	release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: c.Version}
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
	known := conditions.Get(release, addonsv1.KubernetesUpgradeReadyCondition)
	if known != nil && clusterlife.CheckedVersion(release) == upgrade.Version &&
		(known.Status != report.True || known.ObservedGeneration == release.Generation) {
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
