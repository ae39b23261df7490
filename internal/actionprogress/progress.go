// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionprogress

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// writeTimeout is the timeout of one report.
const writeTimeout = 10 * time.Second

// progressInterval is the time between two reports of a running action. Shorter actions do not report progress.
const progressInterval = 5 * time.Second

// Progress writes the current step of a running action into the status of its release.
type Progress struct {
	cancel context.CancelFunc
	done   chan struct{}

	// writing is held during a write. It protects all fields up to the next mutex.
	writing sync.Mutex

	// release and before are the arguments of Start. running is a copy of before that Progress changes and writes, because
	// release must not change while the action runs.
	release, before, running *addonsv1.HelmOpRelease

	// isWritten is true if progress was written. isShared is true if another program has written the object meanwhile.
	isWritten, isShared bool

	mu sync.Mutex
	// what is the name of the current step.
	what string
}

// Start reports the progress of an action until Stop is called. before is the release as the API server has it. release
// is the object that the caller writes after the action. writer must be the client that the caller uses for its own
// writes.
func Start(ctx context.Context, writer client.Client, release, before *addonsv1.HelmOpRelease,
	action model.Action,
) *Progress {
	ctx, cancel := context.WithCancel(ctx)
	progress := &Progress{cancel: cancel, done: make(chan struct{}), what: "started", release: release,
		before: before, running: before.DeepCopy()}
	since := time.Now().UTC().Format(time.RFC3339)
	go func() {
		defer close(progress.done)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		written := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if what := progress.now(); what != written {
				message := fmt.Sprintf("%s is running since %s: %s", attempts.VerbOf(action), since, what)
				if err := progress.write(ctx, writer, action, message); err != nil && ctx.Err() == nil {
					ctrl.LoggerFrom(ctx).V(1).Info("Cannot report the progress of an action", "error", err.Error())
				}
				written = what
			}
		}
	}()
	return progress
}

// Set sets the current step of the action. It returns at once.
func (p *Progress) Set(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
}

func (p *Progress) now() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.what
}

// Stop stops the reports. It returns when no write is running any more, so that the caller writes the result of the
// action last. It updates release and before to the state of the last write, so that the next write of the caller has
// no conflict. It may be called more than once.
func (p *Progress) Stop() {
	p.cancel()
	<-p.done
	p.writing.Lock()
	defer p.writing.Unlock()
	p.update()
}

// Pause calls a function that changes and writes the release while the action runs. It waits for a report that is being
// written. No report is written before the function returns.
func (p *Progress) Pause(write func() error) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.update()
	err := write()
	p.running = p.before.DeepCopy()
	return err
}

// update updates release and before to the state of the last report.
func (p *Progress) update() {
	if p.isWritten {
		p.isWritten = false
		p.before.ResourceVersion, p.release.ResourceVersion = p.running.ResourceVersion, p.running.ResourceVersion
		p.before.Status = *p.running.Status.DeepCopy()
	}
}

// write writes the current step of the action. It keeps changes that another program made meanwhile. If there are such
// changes, the caller must write the result of the action in the same way as without progress reports.
func (p *Progress) write(ctx context.Context, c client.Client, action model.Action, message string) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	written := p.running.DeepCopy()
	if action == model.ActionUninstall {
		report.SetNotReady(written, addonsv1.DeletingReason, message)
	} else {
		releasestatus.NotReleased(written, addonsv1.UpdatingReason, message)
		written.Status.LastError = p.release.Status.LastError
	}
	if !p.isShared {
		err := c.Status().Patch(ctx, written, client.MergeFromWithOptions(p.running, client.MergeFromWithOptimisticLock{}))
		if err == nil {
			p.running, p.isWritten = written, true
		}
		if p.isShared = apierrors.IsConflict(err); !p.isShared {
			return err
		}
	}
	return c.Status().Patch(ctx, written, client.MergeFrom(p.running))
}
