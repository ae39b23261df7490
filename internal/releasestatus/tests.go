// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasestatus

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// maxTests is the largest number of tests in status.tests.
	maxTests = 20

	testSucceeded = "Succeeded"
)

// Tested reports the results of the chart's tests. It returns the message for an Event, and whether a test failed.
func Tested(release *addonsv1.HelmOpRelease, result helmclient.Result) (message string, hasFailed bool) {
	release.Status.Tests = testResults(result.Tests)
	total := plural.Count(len(result.Tests), "test", "tests")
	status, reason := report.True, addonsv1.TestsSucceededReason
	message = fmt.Sprintf("%s of Helm revision %d succeeded", total, result.Revision)
	failed := failedTests(result.Tests)
	if hasFailed = len(failed) > 0; hasFailed {
		status, reason = report.False, addonsv1.TestsFailedReason
		message = fmt.Sprintf("%d of %s failed: %s", len(failed), total, strings.Join(failed[:min(len(failed), 3)], ", "))
		attempts.NoteError(release, message)
	}
	report.SetCondition(release, addonsv1.TestedCondition, status, reason, message)
	Ready(release)
	return message, hasFailed
}

func failedTests(tests []model.TestResult) []string {
	var failed []string
	for _, test := range tests {
		if test.Phase != testSucceeded {
			failed = append(failed, test.Name)
		}
	}
	return failed
}

// testResults returns the first maxTests results in the form of the status, failed tests first.
func testResults(tests []model.TestResult) []addonsv1.TestResult {
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

// tests sets the condition Tested from the labels of the newest record. This also works after the status was lost. An
// adopted revision is not tested.
func tests(release *addonsv1.HelmOpRelease, newest model.Record, isEnabled bool) {
	if !isEnabled || newest.Tested == model.TestedAdopted {
		conditions.Delete(release, addonsv1.TestedCondition)
		release.Status.Tests = nil
		return
	}
	switch tested := conditions.Get(release, addonsv1.TestedCondition); {
	case newest.Tested == "":
		report.SetCondition(release, addonsv1.TestedCondition, metav1.ConditionUnknown, addonsv1.TestsPendingReason,
			"The tests run when the release is healthy")
	case tested != nil && (tested.Status == report.True) == (newest.Tested == model.TestedPassed) &&
		tested.Status != metav1.ConditionUnknown:
	case newest.Tested == model.TestedPassed:
		report.SetCondition(release, addonsv1.TestedCondition, report.True, addonsv1.TestsSucceededReason,
			fmt.Sprintf("The tests of Helm revision %d succeeded", newest.Revision))
	case newest.Tested == model.TestedFailed:
		report.SetCondition(release, addonsv1.TestedCondition, report.False, addonsv1.TestsFailedReason,
			fmt.Sprintf("The tests of Helm revision %d failed", newest.Revision))
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
