// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
)

const (
	// RequestTimeout bounds one request that is not a watch, its body included. A list of ten revisions of a large
	// chart takes a few seconds on a slow link; a peer that accepts and never answers is given up after this time.
	RequestTimeout = 30 * time.Second
)

const (
	// DefaultPendingTimeout is the age at which a pending record of another process counts as abandoned. Helm's own
	// timeout for one hook is 5 minutes. A shorter age would break running upgrades of people; a longer one would keep a
	// release blocked after a crash of another process.
	DefaultPendingTimeout = 15 * time.Minute
	// DefaultRetries is the default number of retries after a failure.
	DefaultRetries = 10
	// UnreachableRetry is when to look again at a cluster that did not answer.
	UnreachableRetry = 15 * time.Second
	// FreeInterruptions is the number of successive attempts that may be interrupted before the next one waits. The
	// restart or move of a manager must not delay its work.
	FreeInterruptions = 2
	// MinRequeue keeps a Wait whose end is due from becoming a busy loop.
	MinRequeue = time.Second

	// MinBackoff is the wait after the first failure, maxBackoff the longest one.
	MinBackoff = 10 * time.Second
	maxBackoff = 10 * time.Minute
	// maxJitter is the share of a wait by which it is longer at most.
	maxJitter = 0.2
)

// Policy is what the owner of a release permits.
type Policy struct {
	// TakeOwnership adopts a release of another owner.
	TakeOwnership bool
	// PendingTimeout is the age from which on a pending record of another holder counts as abandoned. Zero means
	// [DefaultPendingTimeout].
	PendingTimeout time.Duration
	// Install applies to failures while no revision of the release ever worked, Upgrade to later failures.
	Install, Upgrade FailurePolicy
	// Test controls the chart's tests.
	Test TestPolicy
	// CorrectDrift puts objects right that differ from the newest revision's manifest.
	CorrectDrift bool
}

// FailurePolicy controls what follows a failure.
type FailurePolicy struct {
	// Retries is how often the same is tried again. Nil means [DefaultRetries], a negative number without end, zero never.
	// Tries that are cut off count from the third in a row on.
	Retries *int
	// Remediate is the remediation before the next attempt.
	Remediate Remediation
}

// Remediation is what is done about a failure before the next attempt. The set is closed.
type Remediation string

const (
	// RemediateNothing leaves what failed in place; the next try completes it.
	RemediateNothing Remediation = ""
	// RemediateRollback returns to the newest revision that worked, after each failure. It is for upgrades only, which
	// then fail, too, if they do not become healthy or their tests fail.
	RemediateRollback Remediation = "Rollback"
	// RemediateUninstall uninstalls a release before the next attempt, if no revision of it ever worked. It does nothing
	// if the policy takes ownership: objects of the release may have worked before the release.
	RemediateUninstall Remediation = "Uninstall"
)

// TestPolicy controls whether the chart's tests run and whether their failure counts.
type TestPolicy struct {
	Enabled, IgnoreFailures bool
}

// Past is what the caller remembers of the attempts at the desired state, see [AttemptDigest]. It must be zero after
// the desired state changed. Helm's storage counts, too, so a caller that lost its memory loses little.
type Past struct {
	// Failures is the number of failed attempts: installations, upgrades, tests, uninstallations before an installation,
	// and revisions that did not become healthy. Rollbacks do not count. The larger of this number and the number in the
	// storage counts.
	Failures int
	// FailedAt is when the last of them failed. The later of this and the time in the storage counts.
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
	// WasOurs means that the object of the caller made an earlier revision of the release, and that no retry is requested.
	// If another owner has the release now, it is not taken back.
	WasOurs bool
	// Restore means that objects of the newest revision were deleted, and that their re-creation was requested. As with
	// RetryRequested, the caller must reset it after an attempt, and a request to which the newest record responded
	// already does not count.
	Restore bool
	// RetryRequested ignores the failures, because a retry was requested. It is for one attempt: afterwards the caller
	// must reset it and the failures that it remembers. The attempt may end the caller, or the caller may fail to save its
	// memory; so a request to which the newest record responded already does not count.
	RetryRequested bool
	// Request is the digest of the last request, as hex digits, whether it was met or not. It is empty if the caller
	// cannot distinguish requests. It must differ from earlier requests, because an equal one counts as met.
	Request string
	// Jitter, from 0 to 1 and constant for a release, makes waits longer by up to 20 %, so that not all releases are
	// tried again at once.
	Jitter float64
}

// PendingLimit is PendingTimeout or its default.
func (p Policy) PendingLimit() time.Duration {
	if p.PendingTimeout <= 0 {
		return DefaultPendingTimeout
	}
	return p.PendingTimeout
}

// Allows reports whether the policy allows one more try after so many failures.
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
	// Not a number is in no order with others, so it must not get past this.
	if !(jitter > 0) {
		return wait
	}
	return wait + time.Duration(float64(wait)*maxJitter*min(jitter, 1))
}

// Since returns the past without a request to which the newest record responded already. The caller then did not get to
// remember that attempt: its count of failures is older than the request, and only the record has the later ones.
// Without this, an attempt that ends the process each time would be requested again each time.
func (p Past) Since(newest Record, desired Desired) Past {
	if (p.RetryRequested || p.Restore) && newest.answers(p.Request, desired) {
		p.RetryRequested, p.Restore, p.Failures, p.FailedAt = false, false, 0, time.Time{}
	}
	if release.Status(newest.Status).IsPending() && newest.MadeFrom(desired) && newest.ChangedAt.After(p.FailedAt) {
		// The caller counted this attempt before it began. The record has the number of failed attempts before it.
		p.Failures, p.FailedAt = 0, time.Time{}
	}
	return p
}
