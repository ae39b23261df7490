// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/base64"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

const (
	// MaxRecordSize is the maximum stored size of a revision in one Secret: JSON, compressed, in base64. The data of a
	// Secret may have 1 MiB; the rest is for what an action adds, such as times of hooks and failures.
	MaxRecordSize = 1<<20 - 8<<10
)

// Storage is where payloads of records are stored that are not in Helm's own Secrets. The zero value stores only
// payloads that do not fit, in further Secrets of the workload cluster. Each record holds the place of its payload:
// Storage applies to new records, and Store is used to read the payloads outside of the cluster.
type Storage struct {
	// Store stores payloads outside of the workload cluster; nil if there is no such store.
	Store payload.Store
	// Outside has the payloads of all new records kept in Store.
	Outside bool

	// Limit replaces the bounds of payloads, and SplitAll splits all records, in tests.
	Limit    int
	SplitAll bool
}

const (
	// MaxClusterPayload is the maximum size of a payload in Secrets, in packed bytes. Etcd holds some gigabytes, and a
	// history has ten records.
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

// Splits reports whether a record of that packed size is stored as a pointer and a payload.
func (s Storage) Splits(packed int) bool {
	return s.Outside || s.SplitAll || !fitsSecret(packed)
}

// fitsSecret reports whether a record fits into a Secret; packed is its size before base64.
func fitsSecret(packed int) bool { return base64.StdEncoding.EncodedLen(packed) <= MaxRecordSize }
