// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
)

// chartFailed reports that the chart is not available: it is still being pulled, or the pull or the parsing failed.
func (r *Reconciler) chartFailed(ctx context.Context, scope *releaseScope, err error) (ctrl.Result, error) {
	var failure *artifacts.Failure
	switch {
	case errors.Is(err, artifacts.ErrRefetching) && hasFailed(scope.release):
		// The failure of the last pull stays reported until the pull that is running ends.
		return ctrl.Result{}, nil
	case errors.Is(err, artifacts.ErrRefetching), errors.Is(err, artifacts.ErrFetching):
		releasestatus.NotReleased(scope.release, addonsv1.FetchingArtifactReason, err.Error())
		return ctrl.Result{}, nil
	case errors.As(err, &failure):
		result, err := r.failed(ctx, scope, chartReason(err), err)
		if err == nil {
			// All releases with this chart wait for the same pull.
			result.RequeueAfter = max(failure.Wait, time.Millisecond)
		}
		return result, err
	default:
		return r.failed(ctx, scope, chartReason(err), err)
	}
}

// hasFailed reports whether the condition Released has a failure.
func hasFailed(release *addonsv1.HelmOpRelease) bool {
	released := conditions.Get(release, addonsv1.ReleasedCondition)
	return released != nil && released.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[released.Reason]
}

// chartReason returns the reason for an error of pulling, verifying or loading a chart.
func chartReason(err error) string {
	return reasons.For(err, reasons.ChartErrors,
		reasons.For(err, reasons.ArtifactErrors, addonsv1.ArtifactFetchFailedReason))
}
