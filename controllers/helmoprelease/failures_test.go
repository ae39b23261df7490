// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
)

// TestRefetchKeepsReportedFailure checks that the failure of the last pull stays reported while the chart is pulled
// again.
func TestRefetchKeepsReportedFailure(t *testing.T) {
	t.Parallel()
	r := &Reconciler{}
	release := &addonsv1.HelmOpRelease{}
	report := func(err error) string {
		t.Helper()
		if _, err := r.failed(t.Context(), &releaseScope{release: release}, failures.Fetching, err); err != nil {
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
