// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermove

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

// movedKept is the time for which a release that clusterctl move has deleted is not created again. clusterctl deletes
// the releases first and their HelmOps last, which takes seconds, or minutes in a large fleet. A release that a user
// deletes while it has the annotation of a move is created again after this time.
const movedKept = 10 * time.Minute

// Releases holds the HelmOpReleases that clusterctl move has moved to another management cluster. Without this record,
// a HelmOp that is not deleted yet would create such a release again. After the deletion of the HelmOp, the release
// would be uninstalled. Releases of paused Clusters are protected by the pause, but a release of the management cluster
// is not. The zero value is empty. It is safe for concurrent use.
type Releases struct {
	mu    sync.Mutex
	until map[types.NamespacedName]time.Time
}

// add records that a release is being moved.
func (m *Releases) add(release types.NamespacedName, now time.Time) {
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

// forget removes a release from the record. Call it when the release no longer has the annotation of a move: the
// release stays in this management cluster.
func (m *Releases) forget(release types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.until, release)
}

// Rest returns the time after which a release may be created; 0 if it may be created now.
func (m *Releases) Rest(release types.NamespacedName, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.until[release].Sub(now))
}

// Handler returns a handler of events that records releases that are being moved. The handler enqueues nothing.
func (m *Releases) Handler(now func() time.Time) handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ async.RequestQueue) {
			key := types.NamespacedName{Namespace: e.ObjectNew.GetNamespace(), Name: e.ObjectNew.GetName()}
			switch {
			case report.IsBeingMoved(e.ObjectNew):
				m.add(key, now())
			case report.IsBeingMoved(e.ObjectOld):
				m.forget(key)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ async.RequestQueue) {
			if report.IsBeingMoved(e.Object) {
				m.add(types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: e.Object.GetName()}, now())
			}
		},
	}
}
