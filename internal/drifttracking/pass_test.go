// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drifttracking

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
)

// manifestEngine has a manifest of one object.
type manifestEngine struct {
	Engine
	object inventory.Ref
}

func (e manifestEngine) Access(model.Target) (*model.Access, error) {
	return &model.Access{Config: &rest.Config{}}, nil
}

func (e manifestEngine) Manifest(_ context.Context, _ model.Target, _, _ string, _ int, _ bool,
	use func([]*unstructured.Unstructured),
) error {
	use([]*unstructured.Unstructured{controllertest.ObjectOf(e.object)})
	return nil
}

// TestObjectOfUnknownScopeIsNotCompared checks that a watched object does not count as equal if the manifest has the
// object in another namespace. The cluster may no longer serve its kind, and the object may be deleted.
func TestObjectOfUnknownScopeIsNotCompared(t *testing.T) {
	t.Parallel()
	namespaced, clusterScoped, other := controllertest.Custom, controllertest.Custom, controllertest.Custom
	clusterScoped.Namespace, other.Name = "", "other"
	for name, tc := range map[string]struct {
		watched, inManifest inventory.Ref
		want                string
	}{
		"the kind is not served":            {clusterScoped, namespaced, addonsv1.DriftCheckFailedReason},
		"the kind was not served":           {namespaced, clusterScoped, addonsv1.DriftCheckFailedReason},
		"the object is not in the manifest": {clusterScoped, other, addonsv1.NoDriftReason},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := &addonsv1.HelmOpRelease{}
			release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
			release.Status.Inventory = releaseinventory.Of(&release.Spec, []inventory.Ref{tc.watched}, 1)
			now := controllertest.Noon
			p := &Pass{
				Release: release, Memory: &driftmemory.Memory{}, Newest: model.Record{Revision: 1},
				Snapshot: &objectwatch.Snapshot{Synced: true, Objects: map[inventory.Ref]objectwatch.State{tc.watched: {}}},
				Engine:   manifestEngine{object: tc.inManifest}, Acquire: func() (func(), bool) { return func() {}, true },
				Now: func() time.Time { return now },
			}
			// The result must also stay at the next full check.
			for range 2 {
				p.Compare(t.Context())
				if got := conditions.GetReason(release, addonsv1.DriftedCondition); got != tc.want {
					t.Errorf("the reason is %s: %s", got, conditions.GetMessage(release, addonsv1.DriftedCondition))
				}
				now = now.Add(2 * time.Hour)
			}
		})
	}
}
