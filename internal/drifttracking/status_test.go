// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drifttracking

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// TestOverdueDriftCheckIsDueAtOnce checks that a check that became due during another pass is due at once.
func TestOverdueDriftCheckIsDueAtOnce(t *testing.T) {
	t.Parallel()
	release := &addonsv1.HelmOpRelease{}
	release.Status.Drift = &addonsv1.DriftStatus{LastCheckedAt: metav1.NewTime(controllertest.Noon)}
	p := &Pass{Release: release, Memory: &driftmemory.Memory{}, Snapshot: &objectwatch.Snapshot{},
		Now: func() time.Time { return controllertest.Noon.Add(driftmemory.Interval(release)) }}
	p.report(0, nil)
	if p.RequeueAfter <= 0 || p.RequeueAfter > time.Second {
		t.Errorf("due in %s", p.RequeueAfter)
	}
}
