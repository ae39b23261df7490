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

// recall handles a check that a former manager began and did not end. This manager repeats the check after a delay.
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

// wait returns the delay after the last failure.
func (u *Retry) wait(release *addonsv1.HelmOpRelease) time.Duration {
	return queue.Spread(backoff.Exponential(firstRetry, longestRetry, u.Failures-1), release)
}

// fail counts a failed check. It returns the delay before the next try: the given delay or, if that is 0, a growing
// delay.
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
