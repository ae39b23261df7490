/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
)

// progressInterval is how often an action that takes long says what it is at. What is done sooner says nothing.
const progressInterval = 5 * time.Second

// actionProgress writes into the status of a release what an action in its cluster is at, while the action runs.
type actionProgress struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	what string
}

// startProgress follows an action until stop is called.
func (r *releaseReconciler) startProgress(ctx context.Context, release *addonsv1.HelmOpRelease, decision helmclient.Decision) *actionProgress {
	ctx, cancel := context.WithCancel(ctx)
	progress := &actionProgress{cancel: cancel, done: make(chan struct{}), what: "it has begun"}
	// The object belongs to the pass; what is written meanwhile is written to a copy.
	running := release.DeepCopy()
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
				r.sayProgress(ctx, running, decision, fmt.Sprintf("%s since %s: %s", verbOf(decision.Action), since, what))
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

// stop ends it. Nothing is written after stop has returned, so that the outcome of the action has the last word. It may be
// called more than once.
func (p *actionProgress) stop() {
	p.cancel()
	<-p.done
}

func (r *releaseReconciler) sayProgress(ctx context.Context, running *addonsv1.HelmOpRelease, decision helmclient.Decision, message string) {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	before := running.DeepCopy()
	if decision.Action == helmclient.ActionUninstall {
		setNotReady(running, addonsv1.DeletingReason, message)
	} else {
		reportNotReleased(running, addonsv1.UpdatingReason, message)
	}
	if err := r.client.Status().Patch(ctx, running, client.MergeFrom(before)); err != nil && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Cannot say how far an action has come", "error", err.Error())
	}
}
