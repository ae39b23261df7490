// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NumberOf tells how new what is said of an object is: of two sayings about one object, the one with the smaller number
// is older. It is the metadata.generation or, where the kind counts none, the resource version, which API servers count
// up; isVersion tells that it is the latter. The number is 0 if neither is one.
func NumberOf(obj metav1.Object) (number int64, isVersion bool) {
	if generation := obj.GetGeneration(); generation > 0 {
		return generation, false
	}
	version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil || version < 0 {
		return 0, true
	}
	return version, true
}
