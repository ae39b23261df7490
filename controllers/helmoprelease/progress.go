// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// progressInterval is how often an action that takes long says what it is at. What is done sooner says nothing.
const progressInterval = 5 * time.Second

// actionProgress writes into the status of a release what an action in its cluster is at, while the action runs.
type actionProgress struct {
	cancel context.CancelFunc
	done   chan struct{}

	// scope is that of the pass, whose object is left alone while the action runs. What is written is a copy, running.
	scope   *releaseScope
	running *addonsv1.HelmOpRelease
	// isWritten tells that something was, and isShared that somebody else has written the object meanwhile. They are
	// guarded by done.
	isWritten, isShared bool

	mu   sync.Mutex
	what string
}

// startProgress follows an action until stop is called.
func (r *Reconciler) startProgress(ctx context.Context, scope *releaseScope, decision decide.Decision) *actionProgress {
	ctx, cancel := context.WithCancel(ctx)
	progress := &actionProgress{cancel: cancel, done: make(chan struct{}), what: "it has begun", scope: scope,
		running: scope.before.DeepCopy()}
	since := r.now().UTC().Format(time.RFC3339)
	go func() {
		defer close(progress.done)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		said := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if what := progress.now(); what != said {
				message := fmt.Sprintf("%s since %s: %s", verbOf(decision.Action), since, what)
				if err := progress.say(ctx, r.client, decision.Action, message); err != nil && ctx.Err() == nil {
					ctrl.LoggerFrom(ctx).V(1).Info("Cannot say how far an action has come", "error", err.Error())
				}
				said = what
			}
		}
	}()
	return progress
}

// tell takes in what the action is at. It returns at once.
func (p *actionProgress) tell(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
}

func (p *actionProgress) now() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.what
}

// stop ends it. Nothing is written after stop has returned, so that the outcome of the action has the last word; it is
// written upon what was written here, and not taken for a change by somebody else. It may be called more than once.
func (p *actionProgress) stop() {
	p.cancel()
	<-p.done
	if p.isWritten {
		p.isWritten = false
		p.scope.before.ResourceVersion, p.scope.release.ResourceVersion = p.running.ResourceVersion, p.running.ResourceVersion
		p.scope.before.Status = *p.running.Status.DeepCopy()
	}
}

// say writes what the action is at. What somebody else has written meanwhile stays, and the outcome is then written as
// upon a change of theirs.
func (p *actionProgress) say(ctx context.Context, c client.Client, action model.Action, message string) error {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	written := p.running.DeepCopy()
	if action == model.ActionUninstall {
		report.SetNotReady(written, addonsv1.DeletingReason, message)
	} else {
		reportNotReleased(written, addonsv1.UpdatingReason, message)
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
