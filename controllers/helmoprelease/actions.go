// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// errReleaseDeleted is why an action is stopped.
var errReleaseDeleted = errors.New("the release is being deleted")

// runningActions are the actions under way that may be stopped. The zero value is empty; it is safe for concurrent use.
type runningActions struct {
	mu    sync.Mutex
	stops map[types.NamespacedName]context.CancelCauseFunc
}

// begin notes that an action begins; over is to be called when it has ended. Stop is done when it is to end before its
// time. It is not the context of the pass: that one ends with the manager, which lets actions end.
func (a *runningActions) begin(release types.NamespacedName) (stop context.Context, over func()) {
	stop, cancel := context.WithCancelCause(context.Background())
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stops == nil {
		a.stops = map[types.NamespacedName]context.CancelCauseFunc{}
	}
	a.stops[release] = cancel
	return stop, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.stops, release)
		cancel(nil)
	}
}

// end stops the action of a release, if there is one.
func (a *runningActions) end(release types.NamespacedName, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cancel, ok := a.stops[release]; ok {
		cancel(why)
	}
}

// Stopping stops the actions of releases that begin to end: a hook that hangs must not hold up the uninstallation for
// minutes. It brings no passes, those of a release under deletion come anyway.
func (a *runningActions) Stopping(reader client.Reader) handler.EventHandler {
	return handler.Funcs{UpdateFunc: func(ctx context.Context, e event.UpdateEvent,
		_ workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		before, beforeOK := e.ObjectOld.(*addonsv1.HelmOpRelease)
		after, afterOK := e.ObjectNew.(*addonsv1.HelmOpRelease)
		if !beforeOK || !afterOK || !before.DeletionTimestamp.IsZero() || after.DeletionTimestamp.IsZero() {
			return
		}
		helmOp := &addonsv1.HelmOp{}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: after.Namespace, Name: apiutil.HelmOpOf(after)},
			helmOp); err != nil {
			if !apierrors.IsNotFound(err) {
				return
			}
			helmOp = nil
		}
		if isToStop(after, helmOp) {
			a.end(client.ObjectKeyFromObject(after), errReleaseDeleted)
		}
	}}
}

// isToStop tells whether what is under way for a release under deletion is in the way of its end. The HelmOp is nil if
// it is gone. What is left behind, be it by a policy or a move, is to be left in good order, and what is paused is not
// uninstalled now.
func isToStop(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) bool {
	scope := &releaseScope{release: release, helmOp: helmOp}
	return !report.IsBeingMoved(release) &&
		apiutil.DeletionPolicy(scope.release, scope.helmOp) != addonsv1.DeletionPolicyOrphan && pauseOf(scope) == ""
}

// MayBegin tells, right before something is changed in a Cluster, whether the release is this manager's still and was
// not deleted since the pass began; if not, the event of that brings the next pass. For an action it is asked after
// that was noted, so that no deletion is missed.
func (r *Reconciler) mayBegin(ctx context.Context, scope *releaseScope) (bool, error) {
	now, err := r.stillServes(ctx, scope)
	return now != nil && now.UID == scope.release.UID && now.DeletionTimestamp.IsZero(), err
}
