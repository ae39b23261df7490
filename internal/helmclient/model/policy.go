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
	// DefaultPendingTimeout is the age from which on a pending record of another holder counts as abandoned. Helm's
	// own default for one hook is 5 minutes; a shorter time tramples on people's running upgrades, a longer one keeps
	// a release stuck after a crash elsewhere.
	DefaultPendingTimeout = 15 * time.Minute
	// DefaultRetries is how often what failed is tried again where the policy doesn't say.
	DefaultRetries = 10
	// UnreachableRetry is when to look again at a cluster that did not answer.
	UnreachableRetry = 15 * time.Second
	// FreeInterruptions is how many tries in a row may be cut off before the next one waits: a manager that is moved or
	// restarted must not delay what it was doing.
	FreeInterruptions = 2
	// MinRequeue keeps a Wait whose end is due from becoming a busy loop.
	MinRequeue = time.Second

	// MinBackoff is the wait after the first failure, maxBackoff the longest one.
	MinBackoff = 10 * time.Second
	maxBackoff = 10 * time.Minute
	// maxJitter is the share of a wait by which it is longer at most.
	maxJitter = 0.2
)

// Policy is what the owner of a release allows.
type Policy struct {
	// TakeOwnership adopts a release that belongs to somebody else.
	TakeOwnership bool
	// PendingTimeout is the age from which on a pending record of another holder counts as abandoned. Zero means
	// [DefaultPendingTimeout].
	PendingTimeout time.Duration
	// Install tells what follows a failure while no revision of the release ever worked, Upgrade what follows one later.
	Install, Upgrade FailurePolicy
	// Test tells whether the chart's tests run.
	Test TestPolicy
	// CorrectDrift puts objects right that differ from the newest revision's manifest.
	CorrectDrift bool
}

// FailurePolicy tells what follows a failure.
type FailurePolicy struct {
	// Retries is how often the same is tried again. Nil means [DefaultRetries], a negative number without end, zero never.
	// Tries that are cut off count from the third in a row on.
	Retries *int
	// Remediate tells what is done before the same is tried again.
	Remediate Remediation
}

// Remediation is what is done about a failure before the same is tried again. The set is closed.
type Remediation string

const (
	// RemediateNothing leaves what failed in place; the next try completes it.
	RemediateNothing Remediation = ""
	// RemediateRollback returns to the newest revision that worked, after each failure. It is for upgrades only, which
	// then fail, too, if they do not become healthy or their tests fail.
	RemediateRollback Remediation = "Rollback"
	// RemediateUninstall uninstalls a release of which no revision ever worked, unless nothing is tried any more. It does
	// nothing where the policy takes ownership: objects of the release may have worked before it.
	RemediateUninstall Remediation = "Uninstall"
)

// TestPolicy tells whether the chart's tests run, and whether it matters how they end.
type TestPolicy struct {
	Enabled, IgnoreFailures bool
}

// Past is what the caller remembers of the tries at [AttemptDigest] of what is desired. It must be zero after anything
// desired changed. Helm's storage is asked, too: a caller that lost its memory loses little.
type Past struct {
	// Failures is the number of tries that failed: installs, upgrades, tests, uninstalls that are to make way for an install,
	// and revisions that did not become healthy; not rollbacks. The larger of this number and that in the storage counts.
	Failures int
	// FailedAt is when the last of them failed. The later of this and the time in the storage counts.
	FailedAt time.Time
	// Unhealthy says that the newest revision was made from what is desired and did not become healthy.
	Unhealthy bool
	// Unproven says that the newest revision was followed from its deployment on and has not been healthy so far.
	Unproven bool
	// Progressing says that the newest revision may become healthy any time. Its tests wait for that: they would be those of
	// what runs still, or of what does not run yet.
	Progressing bool
	// Drifted says that objects differ from the manifest of the newest revision.
	Drifted bool
	// WasOurs says that the object that asks has made a revision of the release before, and that no retry is requested: if another owner
	// has the release by now, it is not taken back.
	WasOurs bool
	// Restore says that objects of the newest revision were deleted and that somebody asks to create them. As with RetryRequested, the
	// caller must drop it once something was tried, and a request does not count that the newest record answers already.
	Restore bool
	// RetryRequested forgets the failures: somebody asks to try again. It is for one try: the caller must drop it, and
	// what it remembers of failures, once something was tried. A caller may not come to that, because the try ends it or
	// because it cannot save what it remembers; so a request does not count that the newest record answers already.
	RetryRequested bool
	// Request is a digest of the last request, as hex digits, met or not; empty where the caller cannot tell requests
	// apart. It must differ from those of earlier requests: one that does not is taken for met.
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

// Backoff returns how long to wait after so many failures before the next try: 10 seconds, 20 seconds and so on up to
// 10 minutes, longer by up to 20 % as the jitter, from 0 to 1, says.
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

// Since returns the past without a request that the newest record answers already. The caller then did not get to remember
// that try: what it remembers of failures is older than the request, and the record alone tells what came after. Without
// this, a try that ends the process each time would be asked for anew each time.
func (p Past) Since(newest Record, desired Desired) Past {
	if (p.RetryRequested || p.Restore) && newest.answers(p.Request, desired) {
		p.RetryRequested, p.Restore, p.Failures, p.FailedAt = false, false, 0, time.Time{}
	}
	if release.Status(newest.Status).IsPending() && newest.MadeFrom(desired) && newest.ChangedAt.After(p.FailedAt) {
		// The caller counted this very try before it began. The record says how many tries failed before it.
		p.Failures, p.FailedAt = 0, time.Time{}
	}
	return p
}
