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

package reasons

import (
	"errors"
)

// ErrDowngrade says that a reference which chooses among tags stands for an older one than before.
var ErrDowngrade = errors.New("an older version is refused")

// ErrRecord wraps an error of writing a HelmOpRelease.
var ErrRecord = errors.New("cannot write the HelmOpRelease")

// UnresolvedError says that it is not known what a reference stands for.
type UnresolvedError struct {
	Reason, Message string
}

// Error implements error.
func (e *UnresolvedError) Error() string { return e.Message }
