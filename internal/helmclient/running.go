// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// runningActions are the releases on which an action of this process is at work. Two actions on one release, of two HelmOps that hand
// it over for example, each decide on what was there before the other. It is safe for concurrent use.
type runningActions struct {
	mu      sync.Mutex
	running map[records.ObservationKey]bool
}

func newRunningActions() *runningActions {
	return &runningActions{running: map[records.ObservationKey]bool{}}
}

// begin notes that an action on a release begins; end that it has ended. It is an error of the kind [helmerr.ErrStale] if one is at work: what
// was decided on will not be there when it ends.
func (c *Client) begin(s *session, desired model.Desired) (end func(), err error) {
	if s.cluster == nil {
		return func() {}, nil
	}
	key := s.cluster.Clients.Conn.ObservationKey(desired.Namespace, desired.Name)
	// Whoever acts, the release is the same.
	key.User = ""
	r := c.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[key] {
		return nil, helmerr.New(helmerr.ErrStale, "another action on the release %s/%s is running", desired.Namespace, desired.Name)
	}
	r.running[key] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, key)
	}, nil
}
