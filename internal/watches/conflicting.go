// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// ConflictingOnChange returns a handler for HelmOpReleases with the same release name and namespace in the same
// Cluster. When one of them has created or adopted a Helm revision or was deleted, the handler enqueues the others.
// Otherwise a HelmOp whose release was taken over would stay Ready until the next resync, and a HelmOp that waits for
// the release would find it free only after some time. The handler first calls outdate, because records that were read
// before the change are outdated.
func ConflictingOnChange(reader client.Reader, outdate func(context.Context, ctrl.Request)) handler.EventHandler {
	enqueue := func(ctx context.Context, q async.RequestQueue, release *addonsv1.HelmOpRelease) {
		for _, other := range apiutil.ChildrenOfCluster(ctx, reader, apiutil.ClusterKey(release)) {
			if other.UID == release.UID || other.Spec.Release != release.Spec.Release {
				continue
			}
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&other)}
			outdate(ctx, request)
			q.Add(request)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q async.RequestQueue) {
			before, beforeOK := e.ObjectOld.(*addonsv1.HelmOpRelease)
			after, afterOK := e.ObjectNew.(*addonsv1.HelmOpRelease)
			if beforeOK && afterOK && hasNewRevision(before, after) {
				enqueue(ctx, q, after)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q async.RequestQueue) {
			if release, ok := e.Object.(*addonsv1.HelmOpRelease); ok {
				enqueue(ctx, q, release)
			}
		},
	}
}

// hasNewRevision reports whether an event changed the Helm revision in the status of a HelmOpRelease, or added an
// adoption to its history. An adoption may keep the revision.
func hasNewRevision(before, after *addonsv1.HelmOpRelease) bool {
	observed := after.Status.Release
	if observed == nil {
		return false
	}
	if before.Status.Release == nil || before.Status.Release.Revision != observed.Revision {
		return true
	}
	history := after.Status.History
	return len(history) > 0 && history[0].Action == string(model.ActionAdopt) &&
		(len(before.Status.History) == 0 || !equality.Semantic.DeepEqual(before.Status.History[0], history[0]))
}
