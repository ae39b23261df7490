// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"errors"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

func TestHelmOpStatusFits(t *testing.T) {
	t.Parallel()
	controllertest.CheckStatus(t, "../../config/crd/bases/addons.cluster.x-k8s.io_helmops.yaml",
		longHelmOpStatus(controllertest.LongText()))
}

func longHelmOpStatus(long string) *addonsv1.HelmOpStatus {
	helmOp := &addonsv1.HelmOp{}
	helmOp.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: long}
	status := &helmOp.Status
	status.Artifact = artifactStatus(helmOp, resolved{
		artifact: oci.Artifact{URL: "oci://registry.example/chart", Digest: "sha256:1", MediaType: long},
		provenance: provenance(map[string]string{
			ocispec.AnnotationSource: long, ocispec.AnnotationRevision: long, ocispec.AnnotationCreated: long,
		}),
		signed: &verification.Result{Signers: slices.Repeat([]string{long}, 2*maxSigners)},
	}, &lookup{registryAccess: &registryAccess{policy: &verification.Policy{Provider: verification.Cosign}}})
	status.LastResolveRequest = resolveRequest(helmOp)
	_, failure := phaseOf(&clusterScope{err: errors.New(long)}, 1)
	status.Failures = []addonsv1.ClusterFailure{*failure}
	status.Rollout = rolloutStatus(&helmOpScope{
		helmOp: helmOp, revisions: []*addonsv1.HelmOpRevision{{}},
		plan: rollout.Result{Progress: rollout.Progress{WaitingFor: long}},
	})
	report.SetCondition(helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.ResolvingReason, long)
	return status
}
