// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// movedKept is how long a release that clusterctl move has taken away is not created again. clusterctl deletes the
// releases first and their HelmOps last, which takes seconds, or minutes in a large fleet. What is deleted by hand with
// the mark of a move on it comes back after that time.
const movedKept = 10 * time.Minute

// movedReleases remember the HelmOpReleases that clusterctl move has taken to another management cluster. A HelmOp
// whose turn has not come yet would create them again, and when the HelmOp is gone they would be uninstalled: a release
// of the management cluster is not kept from that by a pause, as the releases of paused Clusters are. The zero value is
// empty; it is safe for concurrent use.
type movedReleases struct {
	mu    sync.Mutex
	until map[types.NamespacedName]time.Time
}

// note notes that a release is being moved.
func (m *movedReleases) note(release types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == nil {
		m.until = map[types.NamespacedName]time.Time{}
	}
	for other, until := range m.until {
		if !until.After(now) {
			delete(m.until, other)
		}
	}
	m.until[release] = now.Add(movedKept)
}

// forget says that a release lost the mark of a move: it stays.
func (m *movedReleases) forget(release types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.until, release)
}

// rest is how long a release must not be created yet; 0 if it may.
func (m *movedReleases) rest(release types.NamespacedName, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.until[release].Sub(now))
}

// Noting notes releases that are being moved. It enqueues nothing.
func (m *movedReleases) Noting(now func() time.Time) handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ async.RequestQueue) {
			key := types.NamespacedName{Namespace: e.ObjectNew.GetNamespace(), Name: e.ObjectNew.GetName()}
			switch {
			case report.IsBeingMoved(e.ObjectNew):
				m.note(key, now())
			case report.IsBeingMoved(e.ObjectOld):
				m.forget(key)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ async.RequestQueue) {
			if report.IsBeingMoved(e.Object) {
				m.note(types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: e.Object.GetName()}, now())
			}
		},
	}
}
