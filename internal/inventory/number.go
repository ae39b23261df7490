/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package inventory

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NumberOf tells how new what is said of an object is: of two sayings about one object, the one with the smaller number is older.
// It is the metadata.generation or, where the kind counts none, the resource version, which API servers count up; isVersion tells
// that it is the latter. The number is 0 if neither is one.
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
