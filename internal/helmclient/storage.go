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

package helmclient

import "github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"

// Storage tells where the payloads of records are kept that are not within Helm's own Secrets. The zero value keeps them in
// further Secrets of the workload cluster, and only those that do not fit. Where a record is, it says itself: what is here
// decides about new ones only, and Store is what others are read from.
type Storage struct {
	// Store keeps payloads outside of the workload cluster; nil where there is none.
	Store payload.Store
	// Outside has the payloads of all new records kept in Store.
	Outside bool

	// limit replaces the bounds of payloads, and splitAll splits all records, in tests.
	limit    int
	splitAll bool
}

const (
	// maxClusterPayload bounds a payload that is kept in Secrets, maxStoredPayload one that is kept in a store; in bytes, as it is
	// packed. Etcd holds some gigabytes, and a history has ten records.
	maxClusterPayload = 16 << 20
	maxStoredPayload  = 48 << 20
)

// maxPayload is the size of the largest payload.
func (s Storage) maxPayload() int {
	switch {
	case s.limit > 0:
		return s.limit
	case s.Outside:
		return maxStoredPayload
	default:
		return maxClusterPayload
	}
}

// splits tells whether a record of that packed size is kept as a pointer and a payload.
func (s Storage) splits(packed int) bool {
	return s.Outside || s.splitAll || !fitsSecret(packed)
}
