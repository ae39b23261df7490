// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// lastTry is what the status says of the last try at a release, and of what came of it.
type lastTry struct {
	uid        types.UID
	at         int64
	generation int64
	failures   int32
	revision   int64
	request    string
	// healthOf is the revision whose health is followed.
	healthOf              int64
	wasHealthy, hasFailed bool
}

func lastTryOf(release *addonsv1.HelmOpRelease) lastTry {
	status := &release.Status
	try := lastTry{
		uid: release.UID,
		at:  status.LastAttemptedAt.Unix(), generation: status.LastAttemptedGeneration, failures: status.Failures, request: status.LastRetryRequest,
	}
	if status.Health != nil {
		try.healthOf, try.wasHealthy, try.hasFailed = status.Health.Revision, status.Health.WasHealthy, status.Health.Failed
	}
	if len(status.History) > 0 {
		try.revision = status.History[0].Revision
	}
	return try
}

// lastTries remember what was last written of each release. A pass that follows another at once may read a cache that has not
// seen what that one wrote; without the failure that it tells of, something else would be decided. The zero value is empty; it
// is safe for concurrent use.
type lastTries struct {
	mu        sync.Mutex
	byRelease map[types.NamespacedName]writtenTry
}

type writtenTry struct {
	lastTry
	at time.Time
}

// written notes what was written of a release.
func (t *lastTries) written(key types.NamespacedName, try lastTry, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byRelease == nil {
		t.byRelease = map[types.NamespacedName]writtenTry{}
	}
	t.byRelease[key] = writtenTry{lastTry: try, at: now}
}

// isStale tells whether a release is not as it was last written. One that was made anew is another.
func (t *lastTries) isStale(key types.NamespacedName, read lastTry, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.byRelease[key]
	return ok && known.uid == read.uid && known.lastTry != read && now.Sub(known.at) < requeue.StaleLimit
}

func (t *lastTries) forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byRelease, key)
}
