// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func TestChartReason(t *testing.T) {
	t.Parallel()
	if got := chartReason(bundle.ErrLimit); got != addonsv1.RenderLimitExceededReason {
		t.Errorf("the reason is %q", got)
	}
}

// TestRefetchKeepsReportedFailure checks that the failure of the last pull stays reported while the chart is pulled
// again.
func TestRefetchKeepsReportedFailure(t *testing.T) {
	t.Parallel()
	r := &Reconciler{}
	release := &addonsv1.HelmOpRelease{}
	report := func(err error) string {
		t.Helper()
		if _, err := r.chartFailed(t.Context(), &releaseScope{release: release}, err); err != nil {
			t.Fatal(err)
		}
		return conditions.GetReason(release, addonsv1.ReleasedCondition)
	}
	if got := report(artifacts.ErrRefetching); got != addonsv1.FetchingArtifactReason {
		t.Errorf("the reason of a release without conditions is %q", got)
	}
	conditions.Set(release, metav1.Condition{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionFalse,
		Reason: addonsv1.RegistryUnreachableReason})
	if got := report(artifacts.ErrRefetching); got != addonsv1.RegistryUnreachableReason {
		t.Errorf("the reason while the chart is pulled again is %q", got)
	}
	if got := report(artifacts.ErrFetching); got != addonsv1.FetchingArtifactReason {
		t.Errorf("the reason while another artifact is pulled is %q", got)
	}
}

func TestRetryDelay(t *testing.T) {
	failed := func(failures int32, attempt string) *addonsv1.HelmOpRelease {
		return &addonsv1.HelmOpRelease{Status: addonsv1.HelmOpReleaseStatus{
			Failures: failures, ReleaseBookkeeping: addonsv1.ReleaseBookkeeping{LastAttemptedDigest: attempt},
			LastAttemptedAt: metav1.NewTime(controllertest.Noon),
		}}
	}
	backoff := func(failures int) time.Duration {
		return model.Backoff(failures, apiutil.Jitter(&addonsv1.HelmOpRelease{}))
	}
	tests := map[string]struct {
		release *addonsv1.HelmOpRelease
		attempt string
		after   time.Duration
		want    time.Duration
	}{
		"never failed":             {failed(0, "x"), "x", 0, 0},
		"another attempt":          {failed(3, "x"), "y", 0, 0},
		"failed once, just now":    {failed(1, "x"), "x", 0, backoff(1)},
		"failed once, a while ago": {failed(1, "x"), "x", 4 * time.Second, backoff(1) - 4*time.Second},
		"failed once, long ago":    {failed(1, "x"), "x", time.Hour, 0},
		"failed thrice":            {failed(3, "x"), "x", 0, backoff(3)},
		"failed very often":        {failed(1<<30, "x"), "x", 0, backoff(100)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := retryDelay(tc.release, tc.attempt, controllertest.Noon.Add(tc.after)); got != tc.want {
				t.Errorf("wait %s, want %s", got, tc.want)
			}
		})
	}
}
