// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasehealth"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
)

// releaseMemory is the state of one release that is only in memory and lost with a restart.
type releaseMemory struct {
	// health is the state of the assessment of the health.
	health releasehealth.Memory

	// listedFor is the retry request for which the objects were listed.
	listedFor string

	// drift is the state of drift detection.
	drift driftmemory.Memory

	// upgrade is the next try of a check for an upgrade of Kubernetes.
	upgrade upgradeRetry

	// trace is the memory of the trace.
	trace tracing.Memory

	// delay is the delay until a failed pass is repeated.
	delay requeue.Delay

	// images are the images of the release while it waits for them.
	images preflight.List

	// first is the result of the first read of the records. The watch of other releases outdates it, too.
	first recordreads.First
}

// memoryOf returns the memory of a release.
func (r *Reconciler) memoryOf(release *addonsv1.HelmOpRelease) *releaseMemory {
	return r.memories.Of(client.ObjectKeyFromObject(release))
}

// dropObjects drops what is known of the objects of the release.
func (m *releaseMemory) dropObjects() {
	m.health, m.listedFor = releasehealth.Memory{}, ""
	m.drift, m.trace = driftmemory.Memory{}, tracing.Memory{}
}

// outdateFirst drops the result of the first read of a release, because its records may have changed.
func (r *Reconciler) outdateFirst(release ctrl.Request) {
	if known := r.memories.Known(release.NamespacedName); known != nil {
		known.first.Outdate()
	}
}
