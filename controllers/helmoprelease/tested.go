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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// maxTests is the number of tests in status.tests at most.
	maxTests = 20

	testSucceeded = "Succeeded"
)

// reportTested reports the results of the chart's tests, with an Event.
func (r *Reconciler) reportTested(p *releasePass, result helmclient.Result) {
	release := p.release
	release.Status.Tests = testResults(result.Tests)
	status, reason, message := report.True, addonsv1.TestsSucceededReason, fmt.Sprintf("%s of Helm revision %d succeeded",
		plural.Count(len(result.Tests), "test", "tests"), result.Revision)
	eventType := corev1.EventTypeNormal
	if failed := failedTests(result.Tests); len(failed) > 0 {
		status, reason, eventType = report.False, addonsv1.TestsFailedReason, corev1.EventTypeWarning
		message = fmt.Sprintf("%d of %s failed: %s", len(failed), plural.Count(len(result.Tests), "test", "tests"),
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

// testResults returns the first maxTests results in the form of the status, failed tests first.
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

// reportTests sets the condition Tested from the labels of the newest record, which work also after the status was
// lost.
func reportTests(p *releasePass, newest model.Record) {
	release := p.release
	if !p.policy.Test.Enabled {
		conditions.Delete(release, addonsv1.TestedCondition)
		release.Status.Tests = nil
		return
	}
	switch tested := conditions.Get(release, addonsv1.TestedCondition); {
	case newest.Tested == "":
		report.SetCondition(release, addonsv1.TestedCondition, metav1Unknown, addonsv1.TestsPendingReason,
			"The tests run when the release is healthy")
	case tested != nil && (tested.Status == report.True) == (newest.Tested == model.TestedPassed) &&
		tested.Status != metav1Unknown:
	case newest.Tested == model.TestedPassed:
		report.SetCondition(release, addonsv1.TestedCondition, report.True, addonsv1.TestsSucceededReason,
			fmt.Sprintf("The tests of Helm revision %d succeeded", newest.Revision))
	case newest.Tested == model.TestedFailed:
		report.SetCondition(release, addonsv1.TestedCondition, report.False, addonsv1.TestsFailedReason,
			fmt.Sprintf("The tests of Helm revision %d failed", newest.Revision))
	}
}
