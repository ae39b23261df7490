// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// maxTests bounds status.tests.
	maxTests = 20

	testSucceeded = "Succeeded"
)

// reportTested tells how the chart's tests ended.
func (r *Reconciler) reportTested(p *releasePass, result helmclient.Result) {
	release := p.release
	release.Status.Tests = testResults(result.Tests)
	status, reason, message := report.True, addonsv1.TestsSucceededReason, fmt.Sprintf("%d tests of revision %d succeeded",
		len(result.Tests), result.Revision)
	eventType := corev1.EventTypeNormal
	if failed := failedTests(result.Tests); len(failed) > 0 {
		status, reason, eventType = report.False, addonsv1.TestsFailedReason, corev1.EventTypeWarning
		message = fmt.Sprintf("%d of %d tests failed: %s", len(failed), len(result.Tests),
			strings.Join(failed[:min(len(failed), 3)], ", "))
		noteError(release, message)
	}
	report.SetCondition(release, addonsv1.TestedCondition, status, reason, message)
	reportReady(release)
	r.event(p.releaseScope, eventType, addonsv1.TestedEvent, verbTest, fmt.Sprintf("Tested release %s in Cluster %s: %s",
		describe(release), apiutil.ClusterTitle(release), message))
}

func failedTests(tests []helmclient.TestResult) []string {
	var failed []string
	for _, test := range tests {
		if test.Phase != testSucceeded {
			failed = append(failed, test.Name)
		}
	}
	return failed
}

// testResults are those that the status has room for, the failed ones first.
func testResults(tests []helmclient.TestResult) []addonsv1.TestResult {
	results := make([]addonsv1.TestResult, 0, len(tests))
	for _, test := range tests {
		results = append(results, addonsv1.TestResult{
			Name: apiutil.Truncate(test.Name, 253), Phase: apiutil.Truncate(test.Phase, 32),
			StartedAt: metav1.NewTime(test.StartedAt), CompletedAt: metav1.NewTime(test.CompletedAt),
		})
	}
	slices.SortStableFunc(results, func(a, b addonsv1.TestResult) int {
		return boolToInt(a.Phase == testSucceeded) - boolToInt(b.Phase == testSucceeded)
	})
	return results[:min(len(results), maxTests)]
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// reportTests says what is known of the tests of the newest revision: its labels tell, also after the status was lost.
func reportTests(p *releasePass, newest model.Record) {
	release := p.release
	if !p.policy.Test.Enabled {
		conditions.Delete(release, addonsv1.TestedCondition)
		release.Status.Tests = nil
		return
	}
	switch known := conditions.Get(release, addonsv1.TestedCondition); {
	case newest.Tested == "":
		report.SetCondition(release, addonsv1.TestedCondition, metav1Unknown, addonsv1.TestsPendingReason,
			"the tests run once the release is healthy")
	case known != nil && (known.Status == report.True) == (newest.Tested == model.TestedPassed) &&
		known.Status != metav1Unknown:
	case newest.Tested == model.TestedPassed:
		report.SetCondition(release, addonsv1.TestedCondition, report.True, addonsv1.TestsSucceededReason,
			fmt.Sprintf("the tests of revision %d succeeded", newest.Revision))
	case newest.Tested == model.TestedFailed:
		report.SetCondition(release, addonsv1.TestedCondition, report.False, addonsv1.TestsFailedReason,
			fmt.Sprintf("the tests of revision %d failed", newest.Revision))
	}
}
