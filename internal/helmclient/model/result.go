// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"k8s.io/apimachinery/pkg/types"
)

// Generation identifies the state of an object after an action. Cached states that are older are from before the
// action.
type Generation struct {
	// UID of the object. A re-created object has another one.
	UID types.UID
	// Number is metadata.generation or, if the kind counts none, the resource version; IsVersion is true in the second
	// case.
	Number    int64
	IsVersion bool
}
