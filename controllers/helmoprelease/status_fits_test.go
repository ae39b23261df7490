// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drifttracking"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradereadiness"
)

func TestReleaseStatusFits(t *testing.T) {
	t.Parallel()
	controllertest.CheckStatus(t, "../../config/crd/bases/addons.cluster.x-k8s.io_helmopreleases.yaml",
		longReleaseStatus(t, controllertest.LongText()))
}

func longReleaseStatus(t *testing.T, long string) *addonsv1.HelmOpReleaseStatus {
	release := &addonsv1.HelmOpRelease{}
	release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: long}
	p := &releasePass{releaseScope: &releaseScope{release: release}}
	status := &release.Status

	var refs []inventory.Ref
	for i := range 2 * releaseinventory.MaxObjects {
		number := fmt.Sprint(i)
		refs = append(refs, inventory.Ref{Version: "v1", Kind: "A", Namespace: "x", Name: number},
			inventory.Ref{Version: "v1", Kind: "A" + number, Name: "x"})
		if i < 10 {
			refs = append(refs, inventory.Ref{Group: long, Version: "v1", Kind: "A" + number, Name: "x"},
				inventory.Ref{Version: "v1", Kind: number + long, Name: "x"},
				inventory.Ref{Version: "v1", Kind: "A", Namespace: long, Name: number},
				inventory.Ref{Version: "v1", Kind: "A", Name: number + long})
		}
	}
	status.Inventory = releaseinventory.Of(&release.Spec, refs, 1)
	releasestatus.Tested(release,
		helmclient.Result{Tests: slices.Repeat([]model.TestResult{{Name: long, Phase: long}}, 40)})
	difference := drift.Difference{
		Ref:     inventory.Ref{Group: long, Version: long, Kind: long, Namespace: long, Name: long},
		Manager: long, Paths: slices.Repeat([]string{long}, 20),
	}
	release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
	tracked := &drifttracking.Pass{Release: release, Memory: &driftmemory.Memory{}, Now: time.Now,
		Newest: model.Record{Revision: 1}, Snapshot: &objectwatch.Snapshot{Synced: true}}
	tracked.Compare(t.Context())
	for i := range 20 {
		tracked.Memory.Differing[inventory.Ref{Name: fmt.Sprint(i)}] = difference
	}
	tracked.Compare(t.Context())
	p.subject().Record(decide.Decision{Action: model.ActionInstall}, &p.policy.Test,
		helmclient.Result{Revision: 1, Status: long, ChartName: long, ChartVersion: long, AppVersion: long}, nil, time.Now())
	status.History = nil
	for range 20 {
		attempts.Remember(status, addonsv1.ReleaseAction{Action: "install"})
	}
	report.SetCondition(release, addonsv1.ReleasedCondition, report.True, addonsv1.ReleasedReason, long)
	status.LastRetryRequest = attempts.RetryRequest(p.release, p.helmOp)
	attempts.NoteError(release, long)
	status.Preparation = (&attempts.Preparation{}).Begin(p.subject(), status, time.Now())
	cluster := &clusterv1.Cluster{}
	cluster.Annotations = map[string]string{addonsv1.CheckUpgradeAnnotation: long}
	upgradereadiness.Settle(release, cluster, &unstructured.Unstructured{})
	return status
}
