// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Generation identifies the state of an object after an action. A cached state with a smaller Number is from before the
// action.
type Generation struct {
	// UID is the UID of the object. A re-created object has another UID.
	UID types.UID
	// Number is metadata.generation or, if the kind has no generations, the resource version.
	Number int64
	// IsVersion means that Number is the resource version.
	IsVersion bool
}

// ObjectVersion is a version of an object in which the object belonged to the release and did not have the keep policy.
// This fact cannot change, so it does not expire. If the object has changed, a request with the version as its
// precondition fails.
type ObjectVersion struct {
	UID types.UID
	// Number is the resource version; it is positive.
	Number int64
	// Generation is metadata.generation or, if the kind has no generations, the resource version. It is 0 if it is
	// unknown.
	Generation int64
}

// TestResult is the result of one of the chart's tests.
type TestResult struct {
	// Name is the name of the test's object.
	Name string
	// Phase is "Succeeded", "Failed", "Unknown", or "Running" if the tests were interrupted.
	Phase string
	// StartedAt and CompletedAt are when the test started and ended; zero if it did not.
	StartedAt, CompletedAt time.Time
}
