// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
)

// remembered is what was read of a release as it was met, if that was a moment ago. See MemorySuffices for what it is good for.
func (r *Reconciler) remembered(p *releasePass) (model.Observation, bool) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)}
	return r.reads.Again(request, recordreads.KeyOf(p.release, p.target, p.desired), r.now())
}

// observe reads what the cluster says of a release. If ok is false, it has not answered yet: the release is looked at again when it
// has, and keeps its place in line meanwhile.
func (r *Reconciler) observe(ctx context.Context, release *addonsv1.HelmOpRelease, target model.Target, desired model.Desired) (
	observation model.Observation, err error, ok bool,
) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
	key := recordreads.KeyOf(release, target, desired)
	if !r.reads.Running.IsUnderWay(key) {
		err, waits := r.reads.Begin(target.Key, request)
		if waits {
			// Slow clusters would lose their turns otherwise, again and again.
			r.slots.Keep(request.NamespacedName)
		}
		if err != nil || waits {
			return observation, err, !waits
		}
	}
	began := r.now()
	grace, answers := r.reads.Grace(target.Key)
	observation, err, ok = r.reads.Running.RunWithin(ctx, grace, key, request,
		func(ctx context.Context) (model.Observation, error) {
			ctx, cancel := context.WithTimeout(ctx, recordreads.ObserveTimeout)
			defer cancel()
			isDoubtful := false
			defer func() { r.reads.Answered(target.Key, isDoubtful) }()
			observation, err := r.engine.Observe(ctx, target, desired.Namespace, desired.Name)
			isDoubtful = reasons.For(err, reasons.EngineErrors, "") == addonsv1.ClusterUnreachableReason
			return observation, err
		})
	switch {
	case !ok:
		r.reads.Hangs(target.Key, answers)
		r.slots.Keep(request.NamespacedName)
	case err == nil:
		r.reads.Meet(request, key, observation, began)
	}
	return observation, err, ok
}
