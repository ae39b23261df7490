// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasememory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasehealth"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradereadiness"
)

// Memory is the memory of one release. It needs no lock, because the queue never gives a release to two workers at
// once.
type Memory struct {
	// Health is the memory of the health assessment.
	Health releasehealth.Memory

	// ListedFor is the retry request that caused the last list of the objects.
	ListedFor string

	// ListingSince is when a retry request began to wait for a list of the objects; zero if no request waits.
	ListingSince time.Time

	// Drift is the memory of drift detection.
	Drift driftmemory.Memory

	// Upgrade is the state of failed checks for an upgrade of Kubernetes.
	Upgrade upgradereadiness.Retry

	// Trace is the memory of the trace.
	Trace tracing.Memory

	// Preparation is the artifact that this process fetches, unpacks and parses.
	Preparation attempts.Preparation

	// Delay is the delay before a failed reconciliation is repeated.
	Delay requeue.Delay

	// Images are the images of the release while it waits for them.
	Images preflight.List

	// Records is what is known about Helm's records without a read. Watches call its method Outdate in another goroutine.
	Records recordreads.Kept

	// TakenOver is when this process first took over the records after a move; zero if no takeover is under way.
	TakenOver time.Time

	// Removed is the UID of the HelmOpRelease whose finalizer this process has removed; empty if there is none.
	Removed types.UID

	// Adoption is the wait of an uninstallation for the adoption by another HelmOp.
	Adoption AdoptionWait
}

// AdoptionWait is the wait of an uninstallation for the adoption by another HelmOp.
type AdoptionWait struct {
	// Since is when the wait began; zero if the uninstallation does not wait.
	Since time.Time

	// AllowedSince is the time since which the other HelmOp can adopt the release; zero while a concurrency limit or its
	// rollout delays the adoption.
	AllowedSince time.Time
}

// DropObjects drops the memory of the release's objects. The other fields stay: the delay after a failure, the failed
// upgrade checks, the images, what is known about the records, the removed HelmOpRelease and the wait for an adoption.
func (m *Memory) DropObjects() {
	m.Health, m.ListedFor, m.ListingSince = releasehealth.Memory{}, "", time.Time{}
	m.Drift, m.Trace = driftmemory.Memory{}, tracing.Memory{}
}
