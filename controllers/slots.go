/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// newActionSlots bounds the actions of a number of workers, and of each Cluster. A release is woken before all others when a slot is granted to it.
func newActionSlots(workers, perCluster int, wake *waker) *slots.Slots {
	return slots.New(slots.Options{
		Workers: workers, PerCluster: perCluster,
		Wake: func(release client.ObjectKey) { wake.wakeFirst(ctrl.Request{NamespacedName: release}) },
		Report: func(inUse, waiting int) {
			slotsInUse.Set(float64(inUse))
			slotsWaiting.Set(float64(waiting))
		},
	})
}

// slot takes a slot for what a pass is about to do.
func (r *releaseReconciler) slot(p *releasePass) (done func(), ok bool) {
	return r.slots.Acquire(slots.Claim{
		Release: client.ObjectKeyFromObject(p.release), Cluster: p.target.Key, HelmOp: p.desired.Owner, First: isFirst(p.release),
	})
}
