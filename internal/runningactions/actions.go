// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runningactions

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

// errReleaseDeleted is the cause for stopping a running action.
var errReleaseDeleted = errors.New("the release is being deleted")

// Actions holds the running actions that can be stopped, by release. The zero value is empty. It is safe for concurrent
// use.
type Actions struct {
	mu    sync.Mutex
	stops map[types.NamespacedName]context.CancelCauseFunc
}

// Begin registers an action. The caller must call ended after the action. The context stop is done when the action must
// stop early. It is not derived from the context of the pass: the context of the pass is also done when the manager
// stops, but actions then run to their end.
func (a *Actions) Begin(release types.NamespacedName) (stop context.Context, ended func()) {
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

// stop stops the running action of a release, if there is one. The error of the action contains the cause.
func (a *Actions) stop(release types.NamespacedName, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cancel, ok := a.stops[release]; ok {
		cancel(cause)
	}
}

// StopOnDeletion returns a handler that stops the running action of a release when the HelmOpRelease is deleted: a hook
// that hangs must not delay the uninstallation for minutes. The handler enqueues no requests: another watch enqueues
// releases under deletion.
func (a *Actions) StopOnDeletion(reader client.Reader) handler.EventHandler {
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
		if mayStop(after, helmOp) {
			a.stop(client.ObjectKeyFromObject(after), errReleaseDeleted)
		}
	}}
}

// mayStop reports whether the running action of a release under deletion may be stopped, because the release will be
// uninstalled. It is false if the release stays in the cluster because of its deletion policy or a move: a stopped
// action would leave the release half changed. It is also false for a paused release, which is not uninstalled now.
// helmOp is nil if the HelmOp does not exist.
func mayStop(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) bool {
	return !report.IsBeingMoved(release) &&
		apiutil.DeletionPolicy(release, helmOp) != addonsv1.DeletionPolicyOrphan &&
		apiutil.PauseReason(nil, helmOp, release) == ""
}
