// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// runningActions holds the releases with a running action of this process. If two actions ran on one release, for
// example of two HelmOps during a handover, each would ignore the changes of the other. It is safe for concurrent use.
type runningActions struct {
	mu      sync.Mutex
	running map[records.ObservationKey]bool
}

func newRunningActions() *runningActions {
	return &runningActions{running: map[records.ObservationKey]bool{}}
}

// begin records the start of an action on a release. The caller must call end after the action. If another action runs,
// the error has the kind [helmerr.ErrStale], because the decision will be outdated after the other action.
func (r *runningActions) begin(s *session.Session, desired model.Desired) (end func(), err error) {
	if s.Cluster == nil {
		return func() {}, nil
	}
	key := s.Cluster.Clients.Conn.ObservationKey(desired.Namespace, desired.Name)
	// The release is the same for all impersonated users.
	key.User = ""
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[key] {
		return nil, helmerr.New(helmerr.ErrStale, "another action on the release %s/%s is running", desired.Namespace,
			desired.Name)
	}
	r.running[key] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, key)
	}, nil
}
