// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradereadiness

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgraderun"
)

// report reports the result of a check.
func (c *Checker) report(s *Subject, check *Check, result *upgraderun.Result) {
	release := s.Release
	release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: check.Version, Inputs: check.inputs}
	// The name of an object may contain a value from a Secret.
	message := result.Summary(check.Version, helmerr.NewRedactor(nil, s.Options.SecretValues).Hide)
	if len(result.Steps) == 0 && !clusterlife.IsNewMinor(check.Version, result.Running) {
		// The upgrade is over. Any other result would block the readers of the condition.
		report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, report.True,
			addonsv1.KubernetesUpgradeReadyReason, message)
		return
	}
	if len(result.Steps) == 0 {
		report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, metav1.ConditionUnknown,
			addonsv1.InvalidKubernetesVersionReason, fmt.Sprintf("The cluster runs %s, which is newer than %q: set the "+
				"annotation %s of the Cluster to a newer minor version, or remove the annotation", result.Running,
				check.Version, addonsv1.CheckUpgradeAnnotation))
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
	s.Blocked = message
}

// reportNoNewMinor reports an upgrade to another patch version or build. Such an upgrade needs no check.
func reportNoNewMinor(release *addonsv1.HelmOpRelease, check *Check) {
	release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: check.Version}
	report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, report.True,
		addonsv1.KubernetesUpgradeReadyReason,
		fmt.Sprintf("The upgrade to %s has no new minor version, so it removes no API", check.Version))
}

// unchecked reports why a release is not checked, and schedules the next try. It returns the error only if the pass was
// canceled.
func (c *Checker) unchecked(ctx context.Context, s *Subject, check *Check, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	message := helmerr.NewRedactor(nil, s.Options.SecretValues).Hide(err.Error())
	outcome, known := failures.Of(err, failures.Checking), &addonsv1.UpgradeCheck{Version: check.Version}
	switch {
	case outcome.Kind == failures.Waiting:
		Pending(s.Release, check, message)
		s.due(outcome.Wait)
		return nil
	case !outcome.Passes:
		known.Inputs = check.inputs // A retry would have the same result.
	case check.inputs == "":
		s.due(requeue.ObjectReadRetry)
		if hasResult(s.Release, check) {
			return nil
		}
	default:
		s.due(c.fail(s, check, outcome.Wait))
	}
	if outcome.Reason == addonsv1.InvalidKubernetesVersionReason && !check.IsPending {
		message = fmt.Sprintf("the annotation %s of the Cluster: %s", addonsv1.CheckUpgradeAnnotation, message)
	}
	s.Release.Status.UpgradeCheck = known
	report.SetCondition(s.Release, addonsv1.KubernetesUpgradeReadyCondition, metav1.ConditionUnknown,
		outcome.Reason, message)
	return nil
}

// hasResult reports whether a release has a valid result for the version of a check. The result True is valid only for
// the current spec and, if the inputs are known, for the same inputs. A failure is valid until the next result, so
// retries do not change the condition.
func hasResult(release *addonsv1.HelmOpRelease, check *Check) bool {
	known := conditions.Get(release, addonsv1.KubernetesUpgradeReadyCondition)
	if known == nil || clusterlife.CheckedVersion(release) != check.Version {
		return false
	}
	isCurrent := known.ObservedGeneration == release.Generation
	switch known.Status {
	case report.False:
		return true
	case report.True:
		return isCurrent && (check.inputs == "" || release.Status.UpgradeCheck.Inputs == check.inputs)
	default:
		return isCurrent && known.Reason != addonsv1.UpgradeCheckPendingReason
	}
}

// Pending reports that the check of a release has not ended. A valid result stays.
func Pending(release *addonsv1.HelmOpRelease, check *Check, why string) {
	if hasResult(release, check) {
		return
	}
	release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: check.Version}
	report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, metav1.ConditionUnknown,
		addonsv1.UpgradeCheckPendingReason, why)
}

// Settle removes the result of a check that is no longer requested. If a pass ended before the check, Settle reports
// why the release is not checked.
func Settle(release *addonsv1.HelmOpRelease, cluster *clusterv1.Cluster, object *unstructured.Unstructured) {
	upgrade, ok := clusterlife.UpgradeToCheckOf(cluster, release)
	if !ok || !release.DeletionTimestamp.IsZero() || !cluster.DeletionTimestamp.IsZero() ||
		apiutil.IsManagement(object) {
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
	report.SetCondition(release, addonsv1.KubernetesUpgradeReadyCondition, metav1.ConditionUnknown,
		addonsv1.UpgradeCheckPendingReason, fmt.Sprintf("The release is not checked for Kubernetes %s yet: %s",
			upgrade.Version, why))
}
