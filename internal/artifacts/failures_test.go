// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"errors"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

func TestFailures(t *testing.T) {
	t.Parallel()
	f := newFailures()
	down := errors.New("down")
	now := controllertest.Noon
	for i, seconds := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		f.record("k", down, now)
		failure := f.pending("k", now)
		least := seconds * time.Second
		if failure == nil || !errors.Is(failure, down) || failure.Wait < least || failure.Wait > least+least/10 {
			t.Fatalf("failure %d: %+v, want a wait of %s and a bit", i+1, failure, least)
		}
		now = now.Add(failure.Wait)
		if f.pending("k", now) != nil || !f.isFailing("k") {
			t.Errorf("failure %d: the time has come, and is not taken", i+1)
		}
	}
	if f.pending("other", now) != nil || f.isFailing("other") {
		t.Error("an artifact pays for another")
	}
	f.record("k", &ocierr.Error{Kind: ocierr.ErrRateLimited, RetryAfter: time.Hour}, now)
	if failure := f.pending("k", now); failure.Wait != time.Hour {
		t.Errorf("the wait is %s, want what the registry asked for", failure.Wait)
	}
	f.record("k", nil, now)
	if f.pending("k", now) != nil || f.isFailing("k") {
		t.Error("a success leaves a failure")
	}
	f.record("forsaken", down, now)
	f.record("k", nil, now.Add(3*time.Hour))
	if f.isFailing("forsaken") {
		t.Error("an unused failure is kept for ever")
	}
}
