// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"testing"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

func TestRevisionStatusFits(t *testing.T) {
	t.Parallel()
	f, long := newBrakedFleet(t), controllertest.LongText()
	revision := &addonsv1.HelmOpRevision{}
	revision.Namespace, revision.Name, revision.Spec.Number = "n", "calico-1", 1
	if err := f.r.client.Create(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	f.helmOp.Annotations = map[string]string{addonsv1.RolloutContinueAnnotation: long}
	scope := &helmOpScope{helmOp: f.helmOp, revisions: revisions.List{revision},
		approval: approval.Decision{Revision: 1, Digest: approval.Digest(nil), Hashes: []string{"hash"}}}
	scope.plan.State = rollout.State{Phase: rollout.PhasePaused, Reason: long}
	if err := f.r.recordApproval(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	if err := f.r.recordRollout(t.Context(), scope, rollout.Requests{Continue: true}); err != nil {
		t.Fatal(err)
	}
	controllertest.CheckStatus(t, "../../config/crd/bases/addons.cluster.x-k8s.io_helmoprevisions.yaml", revision.Status)
}
