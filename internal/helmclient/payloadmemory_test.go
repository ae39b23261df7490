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
)

// TestPanicGivesBackMemory holds that an action which panics gives back the memory for payloads: the controller survives it.
func TestPanicGivesBackMemory(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	open, memory := c.open, records.NewPayloadMemory()
	c.open = func(ctx context.Context, target model.Target, desired model.Desired, logs *helmerr.LogBuffer) (*session, error) {
		s, err := open(ctx, target, desired, logs)
		s.records = records.NewStore(ctx, records.StoreOptions{Memory: memory})
		s.config = nil
		return s, errors.Join(err, s.records.Hold(records.MaxPayloadMemory))
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionUninstall}, helmtest.DesiredFor("apps", "demo", "a1", "v1"), model.Options{}, nil, nil)
	}()
	if !memory.Room.TryAcquire(records.MaxPayloadMemory) {
		t.Error("the memory is lost")
	}
}
