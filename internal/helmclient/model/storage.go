// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/base64"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

const (
	// MaxRecordSize bounds a revision that is kept in one Secret, as it is stored: JSON, compressed, in base64. The
	// data of a Secret may have 1 MiB; the rest is for what an action adds, such as when its hooks ran and what failed.
	MaxRecordSize = 1<<20 - 8<<10
)

// Storage tells where the payloads of records are kept that are not within Helm's own Secrets. The zero value keeps them in
// further Secrets of the workload cluster, and only those that do not fit. Where a record is, it says itself: what is here
// decides about new ones only, and Store is what others are read from.
type Storage struct {
	// Store keeps payloads outside of the workload cluster; nil where there is none.
	Store payload.Store
	// Outside has the payloads of all new records kept in Store.
	Outside bool

	// Limit replaces the bounds of payloads, and SplitAll splits all records, in tests.
	Limit    int
	SplitAll bool
}

const (
	// MaxClusterPayload bounds a payload that is kept in Secrets, in bytes, as it is packed. Etcd holds some gigabytes, and a history has ten
	// records.
	MaxClusterPayload = 16 << 20
	// MaxStoredPayload bounds one that is kept in a store.
	MaxStoredPayload = 48 << 20
)

// MaxPayload is the size of the largest payload.
func (s Storage) MaxPayload() int {
	switch {
	case s.Limit > 0:
		return s.Limit
	case s.Outside:
		return MaxStoredPayload
	default:
		return MaxClusterPayload
	}
}

// Splits tells whether a record of that packed size is kept as a pointer and a payload.
func (s Storage) Splits(packed int) bool {
	return s.Outside || s.SplitAll || !fitsSecret(packed)
}

// fitsSecret tells whether a record fits into a Secret; packed is its size before base64.
func fitsSecret(packed int) bool { return base64.StdEncoding.EncodedLen(packed) <= MaxRecordSize }
