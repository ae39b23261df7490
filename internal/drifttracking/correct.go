// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drifttracking

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
)

// Correct corrects the differences that Compare found. Objects that another program changes repeatedly, and objects
// whose correction failed, are not corrected for some time. hasFailed is true if a correction failed.
func (p *Pass) Correct(ctx context.Context) (corrected []drift.Difference, hasFailed bool) {
	var due []drift.Difference
	for _, d := range p.Differences {
		// The missing object may have been moved. The watch will show the deletion, and then also whether the object
		// was moved. This event starts the next pass.
		isDeletionUnseen := d.Missing && p.Snapshot.Objects[d.Ref].Exists
		if !isDeletionUnseen && p.Memory.Hold(d.Ref, p.Snapshot, p.Now()) == 0 {
			due = append(due, d)
		}
	}
	if len(due) == 0 {
		return nil, false
	}
	done, ok := p.Acquire()
	if !ok {
		return nil, false
	}
	defer done()
	// Count before the correction: a corrected object was compared, but the correction makes it uncompared again.
	left := p.Memory.Left(p.Snapshot)
	corrected, hasFailed = p.correct(ctx, due)
	p.report(left, nil)
	return corrected, hasFailed
}

// correct corrects differences and returns the corrected ones. It holds the lock of the release. It stops if this
// manager no longer serves the release, if the release is under deletion, or if its records changed. failed is true if
// a correction failed. A conflict or the timeout is not a failure: the correction continues in another pass.
func (p *Pass) correct(ctx context.Context, due []drift.Difference) (corrected []drift.Difference, failed bool) {
	unlock, err := p.Engine.Lock(p.Target, p.Desired)
	if err != nil {
		p.due(driftContinues)
		return nil, false
	}
	defer unlock()
	access, err := p.Engine.Access(p.Target)
	if err != nil {
		for _, d := range due {
			p.Memory.Uncorrected.Add(d.Ref, driftmemory.FingerprintOf(p.Snapshot.Objects[d.Ref]), err, p.Now())
		}
		return nil, true
	}
	bounded, cancel := context.WithTimeout(ctx, driftTimeout)
	defer cancel()
	cluster := drift.Cluster{Config: access.Config, Mapper: access.Mapper}
	for _, d := range due {
		if bounded.Err() != nil {
			p.due(driftContinues)
			break
		}
		if !p.mayCorrect(bounded, d) {
			break
		}
		err := drift.Correct(bounded, cluster, d)
		if ctx.Err() != nil {
			break
		}
		monitoring.ObserveCorrection(err)
		switch {
		case err == nil:
			p.Memory.Corrected(d.Ref, p.Now())
			corrected = append(corrected, d)
		case apierrors.IsConflict(err):
			p.due(driftmemory.Retry)
		default:
			p.Memory.Uncorrected.Add(d.Ref, driftmemory.FingerprintOf(p.Snapshot.Objects[d.Ref]), err, p.Now())
			failed = true
		}
	}
	return corrected, failed
}

// mayCorrect reports whether an object may be corrected. If not, it schedules the next pass. It reads the records,
// because another manager may have adopted, upgraded or uninstalled the release after the comparison. One read is
// enough for the patches of recordsTTL, because the API server refuses a patch of a changed object. Nothing refuses the
// creation of an object that the other manager has just deleted. So mayCorrect reads the records before each creation.
func (p *Pass) mayCorrect(ctx context.Context, d drift.Difference) bool {
	if ok, err := p.MayBegin(ctx); !ok {
		if err != nil {
			p.due(driftmemory.Retry)
		}
		return false
	}
	if !d.Missing && !p.confirmedAt.IsZero() && p.Now().Sub(p.confirmedAt) < recordsTTL {
		return true
	}
	now := p.Now()
	switch err := p.Engine.Confirm(ctx, p.Target, p.Desired, p.Newest); {
	case err == nil:
		p.confirmedAt = now
		return true
	case errors.Is(err, helmerr.ErrStale):
		p.due(driftContinues)
	default:
		p.due(driftmemory.Retry)
	}
	return false
}
