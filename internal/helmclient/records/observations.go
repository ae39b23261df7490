// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"crypto/sha256"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// observationTTL is how long an action may use an observation. If the action read the history itself, the history
	// could be equally outdated when the action writes. If another process has created a revision meanwhile, the cluster
	// rejects the new record.
	observationTTL = 5 * time.Second
	// maxObservations bounds the cached observations of all clusters. It is enough for the workers that are about to act,
	// and for some observations after which no action is needed.
	maxObservations = 128
)

// Observations caches recent observations for the actions that follow. It is safe for concurrent use.
type Observations struct {
	Now func() time.Time

	mu    sync.Mutex
	byKey *lru.LRU[ObservationKey, observedRecords]
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
	o := &Observations{Now: time.Now}
	// NewLRU fails only if the size is not positive.
	o.byKey, _ = lru.NewLRU[ObservationKey, observedRecords](maxObservations, nil)
	return o
}

// Put caches the metadata of a release's records; at is when the records were read.
func (o *Observations) Put(key ObservationKey, at time.Time, records []metav1.PartialObjectMetadata) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byKey.Add(key, observedRecords{at: at, records: records})
}

// Take returns a recent observation and removes it from the cache.
func (o *Observations) Take(key ObservationKey) ([]metav1.PartialObjectMetadata, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	observed, ok := o.byKey.Get(key)
	o.byKey.Remove(key)
	return observed.records, ok && o.Now().Sub(observed.at) < observationTTL
}

// Drop removes an observation, for an action that must not use it.
func (o *Observations) Drop(key ObservationKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byKey.Remove(key)
}
