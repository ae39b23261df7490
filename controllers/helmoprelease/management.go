// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
)

// nameManagementCluster sets in the desired state the UID of the management cluster of this manager. If the
// HelmOpRelease was moved or restored from another management cluster, it also sets the UID of the former one.
func (r *Reconciler) nameManagementCluster(ctx context.Context, release *addonsv1.HelmOpRelease,
	desired *model.Desired,
) error {
	system, err := apiutil.SystemNamespace(ctx, r.client)
	if err != nil {
		return err
	}
	desired.ManagementCluster = string(system.UID)
	if former := release.Annotations[addonsv1.ManagementClusterAnnotation]; former != desired.ManagementCluster {
		desired.FormerManagementCluster = former
	}
	return nil
}

// takeOverAfterMove takes over Helm's records of a release that was moved or restored from another management cluster.
// Then it sets the annotation with the UID of this management cluster. The order matters: if the manager stops between
// the two, the next manager takes over again.
func (r *Reconciler) takeOverAfterMove(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	own, former := p.desired.ManagementCluster, p.desired.FormerManagementCluster
	if p.release.Annotations[addonsv1.ManagementClusterAnnotation] == own {
		return nil, nil
	}
	if p.observation.NamesFormer(p.desired) {
		ctx, cancel := context.WithTimeout(ctx, recordreads.ObserveTimeout)
		defer cancel()
		if err := r.engine.TakeOver(ctx, p.target, p.desired, p.observation); err != nil {
			return end(r.failed(ctx, p.releaseScope, addonsv1.ObservationFailedReason, err))
		}
		ctrl.LoggerFrom(ctx).Info("Took over a release from another management cluster", "former", former)
	}
	metav1.SetMetaDataAnnotation(&p.release.ObjectMeta, addonsv1.ManagementClusterAnnotation, own)
	return nil, nil
}
