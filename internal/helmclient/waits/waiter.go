// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// RecordInterval is how often a waiting action checks whether its record still exists.
const RecordInterval = 5 * time.Second

// errWaitPanic replaces the text of a panic, because the text may hold secrets.
var errWaitPanic = errors.New("internal error (panic): please report it")

// Waiter waits for objects of one action. The waits end when the action ends, when it is stopped, or when it loses its
// record.
type Waiter struct {
	// Ctx bounds the action.
	Ctx context.Context
	// Stop ends waits when it is done; nil if nothing ends them.
	Stop context.Context
	// Recorded returns an error if the record of the action no longer exists; nil if there is no such check.
	Recorded func() error
	// Log receives Helm's log lines.
	Log func(string, ...any)
}

// UntilStop waits for objects, but returns when the action is stopped. Helm's wait for ready objects has no context, so
// it continues in the background. Its requests fail after the end of the action, and Helm ends a wait after 31
// failures, 2 seconds apart. Waits for hooks and deletions end at once.
func (w Waiter) UntilStop(resources kube.ResourceList, timeout time.Duration,
	wait func(kube.ResourceList, time.Duration) error,
) error {
	timeout = w.remaining(timeout)
	if len(resources) == 0 || w.Stop == nil && w.Recorded == nil {
		return wait(resources, timeout)
	}
	var stop <-chan struct{}
	if w.Stop != nil {
		stop = w.Stop.Done()
	}
	if w.Stop != nil && w.Stop.Err() != nil {
		return w.stopped()
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
			return w.stopped()
		case <-check.C:
			if err := w.checkRecorded(); err != nil {
				return err
			}
		}
	}
}

// checkRecorded returns an error if the record of the action no longer exists. Another process then uninstalled the
// release, so waiting is pointless.
func (w Waiter) checkRecorded() error {
	if w.Recorded == nil {
		return nil
	}
	return w.Recorded()
}

func (w Waiter) stopped() error {
	return fmt.Errorf("stopped waiting: %w", context.Cause(w.Stop))
}

// remaining limits a timeout to the remaining time of the action, because Helm gives each hook the whole timeout.
func (w Waiter) remaining(timeout time.Duration) time.Duration {
	deadline, ok := w.Ctx.Deadline()
	if !ok {
		return timeout
	}
	// Zero would mean no timeout.
	return max(min(timeout, time.Until(deadline)), time.Millisecond)
}
