// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// admitLoss returns the function that permits or refuses an upgrade in the management cluster that would delete
// objects. The manifest of such a release may have Clusters, which an artifact without one of its folders would delete.
// It returns nil for workload clusters.
func admitLoss(scope *releaseScope) (func(model.Loss) error, error) {
	if apiutil.ClusterKey(scope.release) != clusterlink.Management || scope.helmOp == nil {
		return nil, nil
	}
	content, err := apiutil.ContentDigest(&scope.release.Spec)
	if err != nil {
		return nil, err
	}
	helmOp := scope.helmOp
	return func(loss model.Loss) error {
		lost := brake.ObjectLoss{
			Objects: loss.Objects, Total: loss.Total, Max: helmOp.Spec.MaxDeletions,
			Occasion: fmt.Sprintf("%d/%s", loss.Revision, content),
		}
		why, confirmation := lost.Why(), lost.Confirmation()
		if why == "" || helmOp.Annotations[addonsv1.ConfirmDeletionsAnnotation] == confirmation {
			return nil
		}
		return fmt.Errorf("the upgrade of release %s %s. Correct the artifact, or confirm: kubectl -n %s annotate "+
			addonsv1.HelmOpResource+" %s --overwrite %s=%s",
			describe(scope.release), why, helmOp.Namespace, helmOp.Name, addonsv1.ConfirmDeletionsAnnotation, confirmation)
	}, nil
}
