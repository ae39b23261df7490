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

package drift

import (
	"fmt"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// maxErrors bounds the errors that Errors keeps.
const maxErrors = 10

// ObjectError is what went wrong with one object. Its text holds no value of the object.
type ObjectError struct {
	Ref inventory.Ref
	Err error
}

// Error implements error.
func (e *ObjectError) Error() string {
	return e.Ref.String() + ": " + e.Err.Error()
}

// Unwrap implements errors.Unwrap.
func (e *ObjectError) Unwrap() error {
	return e.Err
}

// Errors are the errors of a comparison.
type Errors struct {
	// Objects are the first 10.
	Objects []*ObjectError
	// More is the number of the others.
	More int
	// NotCompared is the number of objects that were not looked at, because the cluster could not be reached.
	NotCompared int
}

// Error implements error.
func (e *Errors) Error() string {
	texts := make([]string, 0, len(e.Objects)+2)
	for _, err := range e.Objects {
		texts = append(texts, err.Error())
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("%d more objects could not be compared", e.More))
	}
	if e.NotCompared > 0 {
		texts = append(texts, fmt.Sprintf("%d objects were not compared", e.NotCompared))
	}
	return strings.Join(texts, "; ")
}

// Unwrap implements errors.Is and errors.As.
func (e *Errors) Unwrap() []error {
	unwrapped := make([]error, 0, len(e.Objects))
	for _, err := range e.Objects {
		unwrapped = append(unwrapped, err)
	}
	return unwrapped
}
