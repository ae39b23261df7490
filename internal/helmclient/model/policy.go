// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
)

// RequestTimeout bounds one request that is not a watch, including its body. A list of ten revisions of a large chart
// takes a few seconds on a slow link. If a server accepts the connection and does not respond, the request fails after
// this time.
const RequestTimeout = 30 * time.Second

const (
	// DefaultPendingTimeout is the age after which a pending record of another process counts as abandoned. Helm's own
	// timeout for one hook is 5 minutes. A shorter age would break upgrades that a person runs. A longer age would block a
	// release for longer after a crash of another process.
	DefaultPendingTimeout = 15 * time.Minute
	// DefaultRetries is the default number of retries after a failure.
	DefaultRetries = 10
	// UnreachableRetry is the time until the next check of a cluster that did not respond.
	UnreachableRetry = 15 * time.Second
	// FreeInterruptions is the number of successive interruptions after which the next attempt still starts at once. The
	// restart or move of a manager must not delay its work.
	FreeInterruptions = 2
	// MinRequeue is the shortest wait, so that a wait that is about to end does not become a busy loop.
	MinRequeue = time.Second

	// MinBackoff is the wait after the first failure.
	MinBackoff = 10 * time.Second
	// maxBackoff is the longest wait after a failure, without jitter.
	maxBackoff = 10 * time.Minute
	// maxJitter is the maximum jitter, as a share of the wait.
	maxJitter = 0.2
)

// Policy defines what the owner of a release permits.
type Policy struct {
	// TakeOwnership adopts a release of another owner.
	TakeOwnership bool
	// AdoptUnchangedOnly adopts a release of another owner only if the desired state would change nothing.
	AdoptUnchangedOnly bool
	// InstallOnce means that HelmOp does not change a release of the owner if a revision of it worked and no revision was
	// made for the present object since [Desired].ClusterRecreatedAt. A requested retry still changes it. The owner
	// decides when a release of the present object is done.
	InstallOnce bool
	// PendingTimeout is the age after which a pending record of another process counts as abandoned. Zero means
	// [DefaultPendingTimeout].
	PendingTimeout time.Duration
	// Install applies to failures as long as no revision of the release worked, and Upgrade to later failures.
	Install, Upgrade FailurePolicy
	// Test controls the chart's tests.
	Test TestPolicy
	// CorrectDrift corrects objects that differ from the newest revision's manifest.
	CorrectDrift bool
}

// FailurePolicy defines the reaction to a failure.
type FailurePolicy struct {
	// Retries is the number of retries. Nil means [DefaultRetries], zero means no retry, and a negative number means no
	// limit. Interrupted attempts count from the third in a row.
	Retries *int
	// Remediate is the remediation before the next attempt.
	Remediate Remediation
}

// Remediation is the reaction to a failure before the next attempt. The set is closed.
type Remediation string

const (
	// RemediateNothing leaves the failed revision in place; the next attempt completes it.
	RemediateNothing Remediation = ""
	// RemediateRollback rolls back to the newest revision that worked, after each failure. It applies to upgrades only. An
	// upgrade then also fails if the revision does not become healthy or its tests fail.
	RemediateRollback Remediation = "Rollback"
	// RemediateUninstall uninstalls a release before the next attempt, if no revision of it ever worked. It does nothing
	// if objects of the release may have worked before the release was installed: if the policy takes ownership, or if the
	// installation found objects of the release.
	RemediateUninstall Remediation = "Uninstall"
)

// TestPolicy defines whether the chart's tests run and whether their failure counts.
type TestPolicy struct {
	Enabled, IgnoreFailures bool
}

// Past is the caller's state of the attempts at the desired state, see [AttemptDigest]. It must be zero after the
// desired state changed. Helm's storage holds most of this state too, so a caller that lost the state loses little.
type Past struct {
	// Failures is the number of failed attempts: installations, upgrades, tests, uninstallations before an installation,
	// and revisions that did not become healthy. Rollbacks do not count. The larger of this number and the number in the
	// storage counts.
	Failures int
	// FailedAt is when the last attempt failed. The later of this time and the time in the storage counts.
	FailedAt time.Time
	// Unhealthy means that the newest revision was made from the desired state and did not become healthy.
	Unhealthy bool
	// Unproven means that the newest revision was watched since its deployment and has not been healthy so far.
	Unproven bool
	// Progressing means that the newest revision may still become healthy. Its tests wait, because they would test the
	// previous workloads or none.
	Progressing bool
	// Drifted means that objects differ from the manifest of the newest revision.
	Drifted bool
	// WasOurs means that the object of the caller created an earlier revision of the release, and that no retry is
	// requested. If another owner has the release now, the decision is not to take over the release again.
	WasOurs bool
	// Worked means that the release worked in this cluster, although its records may be lost. It does not depend on the
	// desired state.
	Worked bool
	// Restore means that objects of the newest revision were deleted, and that their re-creation was requested. As with
	// RetryRequested, the caller must reset it after an attempt. A request that the newest record has already handled does
	// not count.
	Restore bool
	// RetryRequested means that a retry was requested: earlier failures are ignored. The request is for one attempt:
	// afterwards the caller must reset RetryRequested and its number of failures. The attempt may end the process, or the
	// caller may fail to save its state. So a request that the newest record has already handled does not count.
	RetryRequested bool
	// RetryAnnotated means that an annotation of a user requested the retry, and not a change of the spec. Only such a
	// request upgrades a release that was installed once.
	RetryAnnotated bool
	// Request is the digest of the last request, as hex digits, whether the request was handled or not. It is empty if the
	// caller cannot distinguish requests. Each request must have a different digest, because a request with an equal
	// digest counts as handled.
	Request string
	// Jitter lengthens waits by up to 20 %, so that releases are not all tried again at the same time. It is a number from
	// 0 to 1, and constant for a release.
	Jitter float64
}

// PendingLimit returns PendingTimeout or its default.
func (p Policy) PendingLimit() time.Duration {
	if p.PendingTimeout <= 0 {
		return DefaultPendingTimeout
	}
	return p.PendingTimeout
}

// Allows reports whether the policy allows another attempt after a number of failures.
func (p FailurePolicy) Allows(failures int) bool {
	switch {
	case p.Retries == nil:
		return failures <= DefaultRetries
	case *p.Retries < 0:
		return true
	default:
		return failures <= *p.Retries
	}
}

// Backoff returns the wait after a number of failures: 10 seconds, 20 seconds and so on, up to 10 minutes. The jitter,
// from 0 to 1, lengthens it by up to 20 %.
func Backoff(failures int, jitter float64) time.Duration {
	if failures <= 0 {
		return 0
	}
	wait := backoff.Exponential(MinBackoff, maxBackoff, failures-1)
	// This condition is also true for NaN.
	if !(jitter > 0) {
		return wait
	}
	return wait + time.Duration(float64(wait)*maxJitter*min(jitter, 1))
}

// Since returns the past without a request that the newest record has already handled. The caller could not save the
// state of this attempt: its number of failures is from before the request, and only the record has the later failures.
// Without this check, an attempt that ends the process would be requested again each time.
func (p Past) Since(newest Record, desired Desired) Past {
	if (p.RetryRequested || p.Restore) && newest.handles(p.Request, desired) {
		p.RetryRequested, p.RetryAnnotated, p.Restore, p.Failures, p.FailedAt = false, false, false, 0, time.Time{}
	}
	return p
}
