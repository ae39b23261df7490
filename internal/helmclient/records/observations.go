// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"crypto/sha256"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
)

const (
	// observationTTL is how long an action may use an observation. If the action read the history itself, the history
	// could be equally outdated when the action writes. If another process has created a revision meanwhile, the cluster
	// rejects the new record.
	observationTTL = 5 * time.Second
	// maxObservations bounds the cached observations of all clusters, in bytes. It is enough for the workers that are
	// about to act, and for some observations after which no action is needed: ten records take about 20 KiB. An action
	// whose observation is not cached lists the records again.
	maxObservations = 1 << 20
)

// Observations caches recent observations for the actions that follow. It is safe for concurrent use.
type Observations struct {
	Now   func() time.Time
	byKey *bytelru.Cache[ObservationKey, observedRecords]
}

// ObservationKey identifies a release that was observed by a user.
type ObservationKey struct {
	Cluster               [sha256.Size]byte
	User, Namespace, Name string
}

type observedRecords struct {
	at      time.Time
	records []metav1.PartialObjectMetadata
}

// NewObservations returns an empty cache.
func NewObservations() *Observations {
	return &Observations{Now: time.Now, byKey: bytelru.New[ObservationKey, observedRecords](maxObservations)}
}

// Put caches the metadata of a release's records, as Trim returns it. at is when the records were read. size is the
// size of the metadata, in bytes.
func (o *Observations) Put(key ObservationKey, at time.Time, records []metav1.PartialObjectMetadata, size int64) {
	o.byKey.RemoveOldest(func(observed observedRecords) bool { return !o.isFresh(observed) })
	o.byKey.Put(key, observedRecords{at: at, records: records}, size)
}

// Take returns a recent observation and removes it from the cache.
func (o *Observations) Take(key ObservationKey) ([]metav1.PartialObjectMetadata, bool) {
	observed, ok := o.byKey.Take(key)
	return observed.records, ok && o.isFresh(observed)
}

// Drop removes an observation, for an action that must not use it.
func (o *Observations) Drop(key ObservationKey) { o.byKey.Remove(key) }

func (o *Observations) isFresh(observed observedRecords) bool {
	return o.Now().Sub(observed.at) < observationTTL
}

// labelOverhead is about the memory that a map needs for a label in addition to its text, in bytes.
const labelOverhead = 48

// Trim returns the part of a record's metadata that an action reads, and its size in bytes. The rest may be large.
func Trim(object *metav1.PartialObjectMetadata) (trimmed metav1.PartialObjectMetadata, size int64) {
	trimmed.Name, trimmed.UID, trimmed.Labels = object.Name, object.UID, object.Labels
	trimmed.CreationTimestamp = object.CreationTimestamp
	bytes := int(unsafe.Sizeof(trimmed)) + len(trimmed.Name) + len(trimmed.UID)
	for key, value := range trimmed.Labels {
		bytes += labelOverhead + len(key) + len(value)
	}
	return trimmed, int64(bytes)
}
