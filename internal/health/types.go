// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Status is the health of one object.
type Status string

const (
	// Current means that an object is in its desired state.
	Current Status = "Current"
	// InProgress means that an object is being brought to its desired state.
	InProgress Status = "InProgress"
	// Failed means that waiting does not make an object current.
	Failed Status = "Failed"
	// Terminating means that an object is under deletion.
	Terminating Status = "Terminating"
	// NotFound means that an object does not exist.
	NotFound Status = "NotFound"
	// Unknown means that the health of an object is unknown, for example because it was not read yet.
	Unknown Status = "Unknown"
)

// Check defines the health of a kind with CEL expressions. The variable self is the object. Expressions are evaluated
// in the order InProgress, Failed, Current, and the first true expression determines the health. If no expression is
// true, the object is in progress. An expression that cannot be evaluated counts as false, for example because a field
// does not exist or the expression is too expensive. Expressions have the standard functions and macros of CEL.
type Check struct {
	// APIVersion and Kind of the objects.
	APIVersion, Kind string
	// InProgress and Failed may be empty; Current must not.
	InProgress, Failed, Current string
}

// Object is the health of one object of a release.
type Object struct {
	Ref    inventory.Ref
	Status Status
	// Message is the cause, see [Checker.Check].
	Message string
	// IsStale is true if the object may have changed since this state was observed. Timeouts do not count this time.
	IsStale bool
}

// State is the health of a release.
type State string

const (
	// StateHealthy means that all objects are current. It also means that all objects were current, and some are in
	// progress for less than the timeout.
	StateHealthy State = "Healthy"
	// StateProgressing means that the release is not healthy yet.
	StateProgressing State = "Progressing"
	// StateFailed means that objects of the release failed or do not exist.
	StateFailed State = "Failed"
	// StateTimedOut means that the release did not become healthy within the timeout.
	StateTimedOut State = "TimedOut"
)

// DefaultTimeout is the default time for a release to become healthy.
const DefaultTimeout = 5 * time.Minute

// Policy configures how long HelmOp waits for a healthy release.
type Policy struct {
	// Timeout is how long a release may take to become healthy after its deployment, and how long a release that was
	// healthy may be in progress. 0 is DefaultTimeout.
	Timeout time.Duration
	// FailFast ends the wait before the timeout: the release is failed as soon as an object failed or does not exist.
	FailFast bool
}

// Past is the state of a release that the caller keeps between two calls of [Summarize]: it is the field Past of the
// last Summary. For a new revision, only Revision and DeployedAt are set.
type Past struct {
	// Revision is the Helm revision of the other fields. Summarize does not read it.
	Revision int64
	// DeployedAt is when the revision was deployed.
	DeployedAt time.Time
	// Healthy is true if the revision was healthy at least once.
	Healthy bool
	// Lost is true if the revision was healthy and is no longer healthy. It is healthy again only when all objects are
	// current.
	Lost bool
	// ProgressingSince is when a revision that was healthy began to have objects that are not current. It is zero if
	// all objects are current.
	ProgressingSince time.Time
	// ObservedSince is when Summarize first got objects that are not current, since all objects were current or since the
	// revision was deployed. It is zero if all objects are current, or if the states of all others are stale. In contrast
	// to the other times, the caller must not store it for another process: the clock of that process may be ahead.
	ObservedSince time.Time
}

// Summary is the health of a release.
type Summary struct {
	State State
	// Message names at most the first three objects that are not current; empty if all are current. It has at most 1 KiB.
	// It does not change while the same objects are not current for the same reasons.
	Message string
	// Past is the input for the next call.
	Past Past
	// RequeueAfter is the time after which the state may change although no object changes; 0 means never.
	RequeueAfter time.Duration
}
