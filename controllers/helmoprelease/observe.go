// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
)

// remembered returns the result of the first read of a release's records, for the second pass. ok is false if there is
// none.
func (r *Reconciler) remembered(p *releasePass) (model.Observation, bool) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)}
	return r.reads.TakeFirst(request, recordreads.KeyOf(p.release, p.target, p.desired))
}

// observe reads Helm's records of a release. If ok is false, the read is still running: the release is enqueued when it
// ends, and keeps its position in the queue for slots.
func (r *Reconciler) observe(ctx context.Context, release *addonsv1.HelmOpRelease, target model.Target,
	desired model.Desired) (
	observation model.Observation, err error, ok bool,
) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
	observation, err, ok = r.reads.Observe(ctx, request, target.Key, recordreads.KeyOf(release, target, desired),
		func(ctx context.Context) (model.Observation, error) {
			return r.engine.Observe(ctx, target, desired.Namespace, desired.Name)
		})
	if !ok {
		r.slots.Keep(request.NamespacedName)
	}
	return observation, err, ok
}
