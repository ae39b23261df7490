// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// newActionSlots returns the slots for the actions of a number of workers, with a limit for each Cluster. A release is
// enqueued with the highest priority when it is granted a slot.
func newActionSlots(workers, perCluster int, wake *async.Waker) *slots.Slots {
	return slots.New(slots.Options{
		Workers: workers, PerCluster: perCluster,
		Wake: func(release client.ObjectKey) { wake.WakeFirst(ctrl.Request{NamespacedName: release}) },
		Report: func(inUse, waiting int) {
			monitoring.SlotsInUse.Set(float64(inUse))
			monitoring.SlotsWaiting.Set(float64(waiting))
		},
	})
}

// slot acquires a slot for the action of a pass. If ok is false, the release is enqueued when it is granted a slot.
func (r *Reconciler) slot(p *releasePass) (done func(), ok bool) {
	return r.slots.Acquire(slots.Claim{
		Release: client.ObjectKeyFromObject(p.release), Cluster: p.target.Key, HelmOp: p.desired.Owner,
		First: queue.IsFirst(p.release),
	})
}
