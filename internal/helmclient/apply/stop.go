// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"
)

// errWaitPanic replaces a panic, whose text may hold secrets.
var errWaitPanic = errors.New("internal error (panic): please report it")

// untilStop waits for objects as Helm does, but only until the action is stopped. Helm's waits know only a timeout. An
// abandoned wait continues until that timeout, or until a number of its requests have failed, because these end with
// the action.
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
	// Copies: to wait overwrites them, and Helm goes on with the others.
	waited := copyInfos(resources)
	go func() {
		defer func() {
			if recover() != nil {
				ended <- errWaitPanic
			}
		}()
		ended <- wait(waited, timeout)
	}()
	look := time.NewTicker(RecordInterval)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-stop:
			return k.stopped()
		case <-look.C:
			if err := k.checkRecorded(); err != nil {
				return err
			}
		}
	}
}

// RecordInterval is how often it is looked, while an action waits, whether its record is still there.
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
