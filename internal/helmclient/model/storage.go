// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/base64"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

// MaxRecordSize is the maximum stored size of a revision in one Secret, in bytes: JSON, compressed, in base64. The data
// of a Secret may have 1 MiB. The rest is reserved for data that an action adds, such as times of hooks and failures.
const MaxRecordSize = 1<<20 - 8<<10

// Storage defines where the payloads of new records are stored. The zero value stores only payloads that do not fit
// into Helm's own Secret, in further Secrets of the workload cluster. Each record holds the place of its payload, and
// Store is also used to read payloads outside of the cluster.
type Storage struct {
	// Store stores payloads outside of the workload cluster; nil if there is no such store.
	Store payload.Store
	// Outside stores the payloads of all new records in Store.
	Outside bool

	// Limit replaces the bounds of payloads in tests, in bytes.
	Limit int
	// SplitAll splits all records in tests.
	SplitAll bool
}

const (
	// MaxClusterPayload is the maximum size of a payload in Secrets, in packed bytes. Etcd holds some gigabytes, and a
	// history has ten records.
	MaxClusterPayload = 16 << 20
	// MaxStoredPayload is the maximum size of a payload in a store outside of the cluster, in packed bytes.
	MaxStoredPayload = 48 << 20
)

// MaxPayload returns the maximum size of a payload, in packed bytes.
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

// Splits reports whether a record of a packed size is stored as a pointer and a payload.
func (s Storage) Splits(packed int) bool {
	return s.Outside || s.SplitAll || !fitsSecret(packed)
}

// fitsSecret reports whether a record fits into a Secret; packed is its size before base64.
func fitsSecret(packed int) bool { return base64.StdEncoding.EncodedLen(packed) <= MaxRecordSize }
