// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"os"
	"path/filepath"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// TestOperatorObjects decodes the objects for the Prometheus Operator strictly into its types.
func TestOperatorObjects(t *testing.T) {
	t.Parallel()
	rule, monitor := &monitoringv1.PrometheusRule{}, &monitoringv1.PodMonitor{}
	for file, object := range map[string]any{"prometheusrule.yaml": rule, "podmonitor.yaml": monitor} {
		content, err := os.ReadFile(filepath.Join(root, "config", "prometheus", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(content, object); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if len(rule.Spec.Groups) == 0 || len(monitor.Spec.PodMetricsEndpoints) != 1 {
		t.Fatalf("%d groups of rules, %d endpoints", len(rule.Spec.Groups), len(monitor.Spec.PodMetricsEndpoints))
	}
	endpoint := monitor.Spec.PodMetricsEndpoints[0]
	if endpoint.Scheme == nil || endpoint.Scheme.String() != "https" || !endpoint.HonorLabels ||
		endpoint.Authorization == nil || endpoint.Authorization.Credentials == nil {
		t.Error("the manager serves metrics by HTTPS to clients with a token, and its label namespace must be honored")
	}
}
