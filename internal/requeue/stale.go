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

package requeue

import (
	"time"
)

const (
	// OutdatedRetry is how often a release whose HelmOp is expected to tell something else looks whether it did. Its
	// event comes sooner; this is for what was taken back meanwhile.
	OutdatedRetry = 30 * time.Second
)

// ObjectReadRetry is the wait before an object that a Cluster refers to and that cannot be read is read again: nothing
// tells when it appears.
const ObjectReadRetry = 15 * time.Second

const (
	// StaleRetry is when a release is looked at again that a cache does not show as it was left.
	StaleRetry = 50 * time.Millisecond

	// StaleLimit bounds the wait for a cache, in case somebody else wrote the status.
	StaleLimit = 10 * time.Second
)
