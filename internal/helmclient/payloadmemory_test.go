// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// TestPanicReleasesPayloadMemory checks that an action that panics releases its memory for payloads. The manager
// continues after the panic.
func TestPanicReleasesPayloadMemory(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	open, memory := c.open, records.NewPayloadMemory(records.MaxPayloadMemory)
	c.open = func(ctx context.Context, target model.Target, desired model.Desired, logs *helmerr.LogBuffer,
	) (*session.Session, error) {
		s, err := open(ctx, target, desired, logs)
		s.Records = records.NewStore(ctx, records.StoreOptions{Memory: memory})
		s.Config = nil
		return s, errors.Join(err, s.Records.Hold(records.MaxPayloadMemory))
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionUninstall},
			helmtest.DesiredFor("apps", "demo", "a1", "v1"), model.Options{}, nil, nil)
	}()
	if memory.Room.InUse() != 0 {
		t.Error("the memory is lost")
	}
}
