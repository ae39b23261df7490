// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// errWaitPanic replaces the text of a panic, because the text may hold secrets.
var errWaitPanic = errors.New("internal error (panic): please report it")

// untilStop waits for objects, but returns when the action is stopped. Helm's wait for ready objects has no context, so
// it continues in the background. Its requests fail after the end of the action, and Helm ends a wait after 31
// failures, 2 seconds apart. Waits for hooks and deletions end at once.
func (k *Client) untilStop(resources kube.ResourceList, timeout time.Duration,
	wait func(kube.ResourceList, time.Duration) error,
) error {
	timeout = k.remaining(timeout)
	if len(resources) == 0 || k.Stop == nil && k.Recorded == nil {
		return wait(resources, timeout)
	}
	var stop <-chan struct{}
	if k.Stop != nil {
		stop = k.Stop.Done()
	}
	if k.Stop != nil && k.Stop.Err() != nil {
		return k.stopped()
	}
	ended := make(chan error, 1)
	// These are copies, because waiting overwrites the objects and Helm continues to use them.
	waited := objectinfo.Copies(resources)
	go func() {
		defer func() {
			if recover() != nil {
				ended <- errWaitPanic
			}
		}()
		ended <- wait(waited, timeout)
	}()
	check := time.NewTicker(RecordInterval)
	defer check.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-stop:
			return k.stopped()
		case <-check.C:
			if err := k.checkRecorded(); err != nil {
				return err
			}
		}
	}
}

// RecordInterval is how often a waiting action checks whether its record still exists.
const RecordInterval = 5 * time.Second

// checkRecorded returns an error if the record of the action no longer exists. Another process then uninstalled the
// release, so waiting is pointless.
func (k *Client) checkRecorded() error {
	if k.Recorded == nil {
		return nil
	}
	return k.Recorded()
}

func (k *Client) stopped() error {
	return fmt.Errorf("stopped waiting: %w", context.Cause(k.Stop))
}
