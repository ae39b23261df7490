// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// TestPreviewKeepsInstalledRelease previews a HelmOp with a changed release name. A release that was installed once
// keeps its name. So the preview must print the digest of the release with this name: the manager computes the same.
func TestPreviewKeepsInstalledRelease(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	b.HelmOp.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyInstallOnce
	digest, err := apiutil.SourceDigest(&b.HelmOp.Spec.Source)
	if err != nil {
		t.Fatal(err)
	}
	b.HelmOp.Status.Artifact = &addonsv1.ArtifactStatus{SourceDigest: digest}
	b.Release.Annotations = map[string]string{addonsv1.InstalledOnceAnnotation: "true"}
	previewer, key := New(Options{Client: b.Client()}), client.ObjectKeyFromObject(b.Cluster)
	release, err := previewer.Release(t.Context(), b.HelmOp, key)
	if err != nil {
		t.Fatal(err)
	}
	spec := release.HelmOpRelease.Spec.DeepCopy()
	if spec.Release == b.Release.Spec.Release {
		t.Fatal("the name of the release is not changed")
	}
	spec.Release = b.Release.Spec.Release
	want, err := approval.HashOfSpec(apiutil.TitleOf(b.HelmOp.Namespace, key), spec)
	if err != nil {
		t.Fatal(err)
	}

	var result Result
	previewer.preview(t.Context(), b.HelmOp, key, b.Release, nil, &result)
	if result.ApprovalHash != want || result.State != StateSame || result.Message != releasespec.InstalledOnce {
		t.Errorf("the preview is %+v, want the hash %s", result, want)
	}
}

// TestPreviewOfClusterThatIsNotReady expects a failure if the Cluster has the release: the change would reach it later.
func TestPreviewOfClusterThatIsNotReady(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	b.Cluster.Status.Initialization.ControlPlaneInitialized = nil
	for want, child := range map[State]*addonsv1.HelmOpRelease{StateNotReady: nil, StateFailed: b.Release} {
		var result Result
		New(Options{Client: b.Client()}).preview(t.Context(), b.HelmOp, client.ObjectKeyFromObject(b.Cluster), child, nil,
			&result)
		if result.State != want || !strings.Contains(result.Message, errNotReady.Error()) {
			t.Errorf("want %s: got %+v", want, result)
		}
	}
}
