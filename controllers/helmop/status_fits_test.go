// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/resolution"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

func TestHelmOpStatusFits(t *testing.T) {
	t.Parallel()
	controllertest.CheckStatus(t, "../../config/crd/bases/addons.cluster.x-k8s.io_helmops.yaml",
		longHelmOpStatus(t, controllertest.LongText()))
}

// longRegistry and longVerifier return texts that are too long.
type (
	longRegistry string
	longVerifier string
)

func (l longRegistry) Resolve(context.Context, oci.Source) (oci.Artifact, error) {
	long := string(l)
	return oci.Artifact{
		URL: "oci://registry.example/chart", Digest: "sha256:1", MediaType: long,
		ConfigMediaType: bundle.ChartConfigMediaType,
		Layers:          []oci.Layer{{MediaType: bundle.ChartLayerMediaType}},
		Annotations: map[string]string{
			ocispec.AnnotationSource: long, ocispec.AnnotationRevision: long, ocispec.AnnotationCreated: long,
		},
	}, nil
}

func (l longVerifier) Verify(context.Context, string, string, oci.Access,
	verification.Policy,
) (verification.Result, error) {
	return verification.Result{Signers: slices.Repeat([]string{string(l)}, 100)}, nil
}

func (longVerifier) Cached(string, string, string) (verification.Result, bool) {
	return verification.Result{}, false
}

// reportLongResolution reports an artifact with texts that are too long.
func reportLongResolution(t *testing.T, helmOp *addonsv1.HelmOp, long string) {
	t.Helper()
	keys := controllertest.ClientOf(controllertest.Opaque("keys",
		map[string]string{"cosign.pub": controllertest.PublicKey}))
	helmOp.Namespace = "n"
	helmOp.Spec.Source.Verify = &addonsv1.Verification{SecretRef: controllertest.SecretRef("keys")}
	resolver := resolution.New(resolution.Options{Registry: longRegistry(long), Verifier: longVerifier(long),
		References: references.NewReader(keys, keys), Concurrency: 1, Now: time.Now})
	outcome, err := resolver.Resolve(t.Context(), helmOp, resolution.Input{IsComplete: true})
	if err != nil {
		t.Fatal(err)
	}
	outcome.WriteTo(helmOp)
}

func longHelmOpStatus(t *testing.T, long string) *addonsv1.HelmOpStatus {
	helmOp := &addonsv1.HelmOp{}
	helmOp.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: long}
	status := &helmOp.Status
	reportLongResolution(t, helmOp, long)
	known := helmopstatus.Of(&helmopstatus.Pass{
		HelmOp: helmOp, Revisions: revisions.List{{
			Status: addonsv1.HelmOpRevisionStatus{Approval: &addonsv1.RevisionApproval{ApprovedAt: metav1.Now()}},
		}},
		Clusters: []helmopstatus.Cluster{{Err: errors.New(long)}},
		Approval: approval.Decision{Required: true, Digest: approval.Digest(nil)},
		Plan:     rollout.Result{Progress: rollout.Progress{WaitingFor: long, Opens: time.Now()}},
	})
	status.Failures, status.Rollout = known.Failures, known.Rollout
	report.SetCondition(helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.ResolvingReason, long)
	return status
}
