// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradereadiness

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// recall reports a check without a result that a former manager began. This manager repeats it after a wait.
func (c *Checker) recall(s *Subject, check *Check) {
	known, retry := s.Release.Status.UpgradeCheck, s.Retry
	if known == nil || known.Attempt == nil || known.Attempt.Inputs != check.inputs || retry.Inputs == check.inputs {
		return
	}
	retry.Inputs, retry.Failures = check.inputs, int(known.Attempt.Count)
	retry.At = known.Attempt.StartedAt.Add(retry.wait(s.Release))
	report.SetCondition(s.Release, addonsv1.KubernetesUpgradeReadyCondition, metav1.ConditionUnknown,
		addonsv1.UpgradeCheckFailedReason, "The manager stopped during the check, because a chart may need more memory than "+
			"the manager has: HelmOp tries again")
}

// wait returns the wait after the last failure.
func (u *Retry) wait(release *addonsv1.HelmOpRelease) time.Duration {
	return queue.Spread(backoff.Exponential(firstRetry, longestRetry, u.Failures-1), release)
}

// fail counts a failed check, and returns the wait before the next try: the given wait or, if it is 0, a wait that grows.
func (c *Checker) fail(s *Subject, check *Check, wait time.Duration) time.Duration {
	retry := s.Retry
	if retry.Inputs != check.inputs {
		*retry = Retry{Inputs: check.inputs}
	}
	retry.Failures++
	if wait == 0 {
		wait = retry.wait(s.Release)
	}
	retry.At = c.Now().Add(wait)
	return wait
}
