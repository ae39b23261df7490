// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NumberOf returns a number that orders the states of one object: an older state has a smaller number. The number is
// metadata.generation. If the kind has no generation, it is the resource version, which API servers increase. isVersion
// is true for a resource version. The number is 0 if there is no generation and the resource version is not a number.
func NumberOf(obj metav1.Object) (number int64, isVersion bool) {
	if generation := obj.GetGeneration(); generation > 0 {
		return generation, false
	}
	return ResourceVersionOf(obj), true
}

// ResourceVersionOf returns the resource version of an object; 0 if it is not a number.
func ResourceVersionOf(obj metav1.Object) int64 {
	version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil || version < 0 {
		return 0
	}
	return version
}
