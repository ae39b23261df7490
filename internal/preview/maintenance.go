// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
)

// whyDeferred returns why the manager would defer a change in a Cluster for maintenance; empty if it would not.
func whyDeferred(release *Release, outcome *Outcome, now time.Time) string {
	if release == nil || outcome.State != StateDiffers {
		return ""
	}
	limits := maintenance.PolicyOf(release.HelmOp.Spec.Maintenance).For(release.clusterAnnotations)
	if outcome.Action == string(model.ActionInstall) && !limits.Covers(addonsv1.MaintenanceInstallation) {
		return ""
	}
	return limits.At(now).Why
}
