// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// leaderLease is the lease of leader election. It notes when the manager renews it: controller-runtime ignores the loss
// of the lease while the manager stops.
type leaderLease struct {
	resourcelock.Interface

	// deadline is the time after the last renewal when a manager that stops must have ended. It is less than the duration
	// of the lease, and more than the time between two renewals with slow responses.
	deadline time.Duration
	// renewed is the start of the last renewal; nil if the manager never had the lease.
	renewed atomic.Pointer[time.Time]
}

// newLeaderLease returns the lease of leader election, and its lock as controller-runtime creates it. Without leader
// election, the lease is nil.
func newLeaderLease(config *rest.Config, options *Options) (*leaderLease, *resourcelock.LeaseLock, error) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: leaseNamespace(options), Name: apiutil.ShardLease(options.shard)},
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity() + "_" + string(uuid.NewUUID())},
	}
	if !options.leaderElect {
		return nil, lock, nil
	}
	if lock.LeaseMeta.Namespace == "" {
		return nil, nil, errors.New("the namespace of the lease is unknown; set --leader-elect-namespace")
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election") // AddUserAgent changes its argument
	// A leader whose request gets no response must have time for another request.
	config.Timeout = max(options.leaderElectRenewDeadline/2, time.Second)
	leases, err := coordinationclient.NewForConfig(config)
	lock.Client = leases
	deadline := options.leaderElectLeaseDuration - options.leaderElectRetryPeriod
	return &leaderLease{Interface: lock, deadline: deadline}, lock, err
}

// Create implements resourcelock.Interface.
func (l *leaderLease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *leaderLease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *leaderLease) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	start := time.Now()
	err := write(ctx, record)
	if err == nil && record.HolderIdentity != "" { // a record without a holder releases the lease
		l.renewed.Store(&start)
	}
	return err
}

// await waits for the end of a manager that stops. It returns an error if the manager loses the lease: the next leader
// then resumes the actions of this manager at once, so this process must end.
func (l *leaderLease) await(ended <-chan error) error {
	if l == nil {
		return <-ended
	}
	for {
		left := l.deadline
		if renewed := l.renewed.Load(); renewed != nil {
			left -= time.Since(*renewed)
		}
		if left <= 0 {
			return fmt.Errorf(
				"the manager could not renew its lease for %s while it stopped, so it ends without its running actions", l.deadline)
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(left):
		}
	}
}
