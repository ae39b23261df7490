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
	// observationTTL is how long an action may use an observation. An action that reads the history itself would be
	// equally outdated when it writes. If another process made a revision in between, the cluster rejects the new record.
	observationTTL = 5 * time.Second
	// maxObservations bounds the observations that are kept, all clusters together: those of the workers that are about to
	// act, and some that need no action.
	maxObservations = 128
)

// Observations passes recent observations to the actions that follow. It is safe for concurrent use.
type Observations struct {
	Now func() time.Time

	mu    sync.Mutex
	byKey *lru.LRU[ObservationKey, observedRecords]
}

// ObservationKey is a release as a user sees it.
type ObservationKey struct {
	Cluster               [sha256.Size]byte
	User, Namespace, Name string
}

type observedRecords struct {
	at      time.Time
	records []metav1.PartialObjectMetadata
}

// NewObservations returns an empty one.
func NewObservations() *Observations {
	o := &Observations{Now: time.Now}
	// It fails only if the size is not positive.
	o.byKey, _ = lru.NewLRU[ObservationKey, observedRecords](maxObservations, nil)
	return o
}

// Put keeps the metadata of a release's records, as they were at a time.
func (o *Observations) Put(key ObservationKey, at time.Time, records []metav1.PartialObjectMetadata) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byKey.Add(key, observedRecords{at: at, records: records})
}

// Take returns a recent observation, once.
func (o *Observations) Take(key ObservationKey) ([]metav1.PartialObjectMetadata, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	observed, ok := o.byKey.Get(key)
	o.byKey.Remove(key)
	return observed.records, ok && o.Now().Sub(observed.at) < observationTTL
}

// Drop drops an observation, for an action that must not rely on it.
func (o *Observations) Drop(key ObservationKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byKey.Remove(key)
}
