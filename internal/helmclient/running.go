// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// runningActions is the lock of each release: it holds the releases with a running action of this process. If two
// actions ran on one release, for example of two HelmOps during a handover, each would ignore the changes of the other.
// It is safe for concurrent use.
type runningActions struct {
	mu      sync.Mutex
	running map[manifests.Key]bool
}

func newRunningActions() *runningActions {
	return &runningActions{running: map[manifests.Key]bool{}}
}

// begin records the start of an action on a release. The caller must call end after the action. If another action runs,
// the error has the kind [helmerr.ErrStale], because the decision will be outdated after the other action. The lock does
// not depend on the credentials: a kubeconfig may be renewed during an action.
func (r *runningActions) begin(target model.Target, desired model.Desired) (end func(), err error) {
	key := releaseKey(target, desired.Namespace, desired.Name)
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
