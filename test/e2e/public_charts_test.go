// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	// chartsEnv lists folders of charts, separated as in PATH. Without it, TestPublicCharts is skipped: this repository
	// contains no third-party charts.
	chartsEnv = "HELMOP_E2E_CHARTS"

	// helmOpsEnv is a file with HelmOps, such as an example, whose charts are in those folders. Charts without a HelmOp
	// are installed with their default values.
	helmOpsEnv = "HELMOP_E2E_HELMOPS"
)

// TestPublicCharts installs, upgrades and uninstalls widely used charts.
func TestPublicCharts(t *testing.T) {
	dirs := filepath.SplitList(os.Getenv(chartsEnv))
	if len(dirs) == 0 {
		t.Skipf("%s is not set", chartsEnv)
	}
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	helmOps := s.publicHelmOps()
	for _, dir := range dirs {
		name := filepath.Base(dir)
		_, err := s.env.Registry.PushChart(s.Context(), "public/"+name, "latest", registry.ChartDir(dir))
		s.must(err)
		helmOp := helmOps[name]
		if helmOp == nil {
			helmOp = s.newHelmOp(strings.ReplaceAll(name, ".", "-"), func(h *addonsv1.HelmOp) {
				h.Spec.Values = nil
				h.Spec.Release.Namespace = "kube-system"
			})
		}
		helmOp.Namespace = s.namespace
		forAll(helmOp)
		helmOp.Spec.Source = s.env.Source("public/"+name, addonsv1.ArtifactReference{Tag: "latest"})
		s.step("installs "+name, func(s *scenario) {
			s.create(helmOp)
			current := s.eventually(helmOp, ready(1))
			release := s.child(current, one.name).Spec.Release
			one.in(s).eventuallyRevisions(release.Namespace, release.Name, "1 deployed")
		})
		s.step("upgrades "+name, func(s *scenario) {
			update(s, helmOp, func(h *addonsv1.HelmOp) {
				keep := int32(3)
				h.Spec.Upgrade = &addonsv1.UpgradeOptions{MaxHistory: &keep}
			})
			release := s.child(helmOp, one.name).Spec.Release
			one.in(s).eventuallyRevisions(release.Namespace, release.Name, "1 superseded", "2 deployed")
		})
	}
}

// publicHelmOps returns the HelmOps to use, by the last element of the repository of their chart.
func (s *scenario) publicHelmOps() map[string]*addonsv1.HelmOp {
	s.Helper()
	helmOps := map[string]*addonsv1.HelmOp{}
	file := os.Getenv(helmOpsEnv)
	if file == "" {
		return helmOps
	}
	raw, err := os.ReadFile(file)
	s.must(err)
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		helmOp := &addonsv1.HelmOp{}
		err := decoder.Decode(helmOp)
		if errors.Is(err, io.EOF) {
			return helmOps
		}
		s.must(err)
		helmOps[path.Base(helmOp.Spec.Source.URL)] = helmOp
	}
}
