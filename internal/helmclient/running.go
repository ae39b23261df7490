// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
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
// the error has the kind [helmerr.ErrStale], because the decision will be outdated after the other action. The lock
// does not depend on the credentials: a kubeconfig may be renewed during an action.
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

// Lock takes the lock of a release, for changes of its objects outside of Helm. Until unlock is called, actions on the
// release fail with [helmerr.ErrStale]. If an action runs, Lock returns such an error. Lock sends no request. It does
// not stop other managers, see [Client.Confirm].
func (c *Client) Lock(target model.Target, desired model.Desired) (unlock func(), err error) {
	if unlock, err = c.running.begin(target, desired); err != nil {
		return nil, helmerr.Observing(err)
	}
	return unlock, nil
}

// Confirm returns an error of the kind [helmerr.ErrStale] if the newest record of a release is no longer the observed
// record, or has another status or owner. Confirm reads the metadata of the records in one request. The error is an
// [*helmerr.Error].
func (c *Client) Confirm(ctx context.Context, target model.Target, desired model.Desired, observed model.Record) error {
	current, err := c.Observe(ctx, target, desired.Namespace, desired.Name)
	if err != nil {
		return err
	}
	if newest, _ := current.Newest(); guardedFields(newest) != guardedFields(observed) {
		return helmerr.Observing(helmerr.New(helmerr.ErrStale,
			"the records of the release %s/%s changed after Helm revision %d was observed", desired.Namespace, desired.Name,
			observed.Revision))
	}
	return nil
}

// guardedFields returns the fields of a record that show which revision is installed and whose it is.
func guardedFields(record model.Record) model.Record {
	return model.Record{ID: record.ID, Revision: record.Revision, Status: record.Status, Owner: record.Owner,
		UID: record.UID, ManagementCluster: record.ManagementCluster, LabelledRevision: record.LabelledRevision,
		Uninstalling: record.Uninstalling}
}
