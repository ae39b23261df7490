// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"k8s.io/apimachinery/pkg/types"
)

// Generation tells which object an action left behind, and how: objects that were seen before that are older.
type Generation struct {
	// UID of the object. One of the same name that is made anew has another.
	UID types.UID
	// Number is its metadata.generation or, where its kind counts none, its resource version; IsVersion tells that it is the latter.
	Number    int64
	IsVersion bool
}
