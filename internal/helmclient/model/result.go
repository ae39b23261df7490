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
