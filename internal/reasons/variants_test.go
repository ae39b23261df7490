// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package reasons

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

func TestReasonOfVariantErrors(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range render.MaxNamespaceMetadata {
		many[fmt.Sprint(i)] = ""
	}
	namespaceLabels := addonsv1.ReleaseOptions{
		Install: &addonsv1.InstallOptions{NamespaceMetadata: &addonsv1.ObjectMetadata{Labels: many}},
	}
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOpSpec)
		labels map[string]string
		want   string
	}{
		"a selector": {
			change: func(s *addonsv1.HelmOpSpec) {
				s.Overrides[1].ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}}
			},
			want: "spec.overrides[1] (gpu).clusterSelector: ",
		},
		"a range": {
			change: func(s *addonsv1.HelmOpSpec) { s.RefsByKubernetesVersion[2].KubernetesVersion = "new" },
			want:   "spec.refsByKubernetesVersion[2].kubernetesVersion: not a version range: ",
		},
		"too many labels together": {
			change: func(s *addonsv1.HelmOpSpec) { s.Overrides[2].ReleaseOptions = namespaceLabels },
			labels: map[string]string{"gpu": "true"},
			want:   "spec.overrides[2] (gpu-edge): after the overrides are merged, install.namespaceMetadata has 66 labels",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := controllertest.SpecWithOverrides()
			tc.change(spec)
			v, err := render.NewVariants(spec)
			if err == nil {
				if _, err := v.Of(nil, "v1.35.0"); err != nil {
					t.Errorf("a Cluster that the entry does not select fails: %v", err)
				}
				_, err = v.Of(tc.labels, "")
			}
			var invalid *render.VariantError
			if !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Fatalf("got %v, want %s…", err, tc.want)
			}
			if ForRendering(fmt.Errorf("wrapped: %w", err)) != addonsv1.InvalidOverrideReason {
				t.Errorf("the reason is %s", ForRendering(err))
			}
		})
	}
}

func TestChartReason(t *testing.T) {
	t.Parallel()
	if got := ForChart(bundle.ErrLimit); got != addonsv1.RenderLimitExceededReason {
		t.Errorf("the reason is %q", got)
	}
}
