// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// lastTry is the status of a release as a pass left it.
type lastTry struct {
	uid    types.UID
	status string // Its digest; empty if it cannot be computed.
}

func lastTryOf(release *addonsv1.HelmOpRelease) lastTry {
	digest, err := apiutil.DigestOf(release.Status)
	if err != nil {
		return lastTry{uid: release.UID}
	}
	return lastTry{uid: release.UID, status: digest}
}

// lastTries remember the status of each release as it was last written. A pass that follows another at once may read a cache that does not
// show it yet. It would decide without a failure that is in it; and since only the difference to what was read is written, what is as
// it was before would not be written again: a release that is Ready again would stay not Ready. The zero value is empty; it is safe for
// concurrent use.
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
