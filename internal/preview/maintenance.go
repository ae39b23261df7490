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
// annotations are the annotations of the Cluster.
func whyDeferred(helmOp *addonsv1.HelmOp, annotations map[string]string, outcome *Outcome, now time.Time) string {
	if outcome.State != StateDiffers {
		return ""
	}
	limits := maintenance.PolicyOf(helmOp.Spec.Maintenance).For(annotations)
	if outcome.Action == string(model.ActionInstall) && !limits.Covers(addonsv1.MaintenanceInstallation) {
		return ""
	}
	return limits.At(now).Why
}
