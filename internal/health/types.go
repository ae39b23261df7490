// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Verdict is the health of one object.
type Verdict string

const (
	// Current means that an object is in its desired state.
	Current Verdict = "Current"
	// InProgress is an object that is on its way.
	InProgress Verdict = "InProgress"
	// Failed is an object that will not become current by waiting.
	Failed Verdict = "Failed"
	// Terminating is an object whose deletion has begun.
	Terminating Verdict = "Terminating"
	// NotFound is an object that does not exist.
	NotFound Verdict = "NotFound"
	// Unknown means that the health of an object is unknown, for example because it was not read yet.
	Unknown Verdict = "Unknown"
)

// Check defines the health of a kind with CEL expressions. Each sees the object as self. They are evaluated in the
// order InProgress, Failed, Current, and the first true one counts; without one, the object is in progress. An
// expression that cannot be evaluated is not true, for example because a field does not exist or the expression is too
// expensive. Expressions have the standard functions and macros of CEL.
type Check struct {
	// APIVersion and Kind of the objects.
	APIVersion, Kind string
	// InProgress and Failed may be empty; Current must not.
	InProgress, Failed, Current string
}

// Object is the health of one object of a release.
type Object struct {
	Ref     inventory.Ref
	Verdict Verdict
	// Message is the cause, see [Checker.Check].
	Message string
}

// State is the health of a release.
type State string

const (
	// StateHealthy is a release whose objects are current, or were and are on their way again for not too long.
	StateHealthy State = "Healthy"
	// StateProgressing is a release that is on its way to healthy.
	StateProgressing State = "Progressing"
	// StateFailed means that objects of the release failed or do not exist.
	StateFailed State = "Failed"
	// StateTimedOut is a release that has been on its way for too long.
	StateTimedOut State = "TimedOut"
)

// DefaultTimeout is the default time for a release to become healthy.
const DefaultTimeout = 5 * time.Minute

// Policy is how long to wait.
type Policy struct {
	// Timeout is how long a release may take to become healthy after it was deployed, and how long one that was
	// healthy may be in progress. Zero is DefaultTimeout.
	Timeout time.Duration
	// FailFast makes a release failed as soon as one of its objects failed or does not exist, without waiting for the
	// timeout.
	FailFast bool
}

// Past is what the caller remembers of a release between two calls of [Summarize]: the Past of the last Summary. For a
// new revision it is Revision and DeployedAt only.
type Past struct {
	// Revision is the revision that all of this is about. Summarize does not read it.
	Revision int64
	// DeployedAt is when that revision was deployed.
	DeployedAt time.Time
	// Healthy is whether it was healthy at least once.
	Healthy bool
	// Lost is whether it was healthy and then ceased to be: it is healthy again only once all objects are current.
	Lost bool
	// ProgressingSince is since when, after it was healthy, not all objects have been current. Zero if all are.
	ProgressingSince time.Time
}

// Summary is the health of a release.
type Summary struct {
	State State
	// Message names the objects that are not current, at most the first three; it is empty if all are. It has at most
	// 1 KiB and stays the same as long as the same objects are not current for the same reasons.
	Message string
	// Past must be remembered for the next call.
	Past Past
	// RequeueAfter is when the state may change without any change of an object. Zero: never.
	RequeueAfter time.Duration
}
