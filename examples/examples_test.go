// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestExamples renders each HelmOp for each sample Cluster that it selects, and compares with the golden files.
func TestExamples(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, file := range exampleFiles(t) {
		example := readExample(t, file)
		for _, helmOp := range example.helmOps {
			clusters := example.selected(t, helmOp)
			if len(clusters) == 0 {
				t.Errorf("%s: HelmOp %s selects no sample Cluster", file, helmOp.Name)
			}
			for _, cluster := range clusters {
				golden := goldenFile(file, helmOp, cluster)
				seen[golden] = true
				compare(t, golden, example.render(t, helmOp, cluster))
			}
		}
	}
	goldens, err := filepath.Glob(filepath.Join("testdata", "golden", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, golden := range goldens {
		if !seen[golden] {
			t.Errorf("%s belongs to no example", golden)
		}
	}
}

// goldenFile returns the golden file of a HelmOp for a Cluster. Names of HelmOps are unique only within a file.
func goldenFile(file string, helmOp *addonsv1.HelmOp, cluster string) string {
	name := fmt.Sprintf("%s-%s.yaml", helmOp.Name, cluster)
	if filepath.Dir(file) != "." {
		name = fmt.Sprintf("%s-%s", strings.TrimSuffix(filepath.Base(file), ".yaml"), name)
	}
	return filepath.Join("testdata", "golden", name)
}

// TestImportantValues checks values whose change could be overlooked when golden files are written again.
func TestImportantValues(t *testing.T) {
	t.Parallel()
	pool := func(cidr string) any {
		return map[string]any{"cidr": cidr, "encapsulation": "VXLAN", "natOutgoing": "Enabled"}
	}
	const long = "beta-with-a-name-longer-than-cilium-takes"
	for _, tc := range []struct {
		file, helmOp, cluster, path string
		want                        any
	}{
		{"calico.yaml", "calico", "alpha", "values.installation.calicoNetwork.ipPools",
			[]any{pool("192.168.0.0/17"), pool("192.168.128.0/17")}},
		{"calico.yaml", "calico", "alpha", "values.installation.calicoNetwork.bgp", "Disabled"},
		{"calico.yaml", "calico", "alpha", "values.installation.controlPlaneReplicas", int64(2)},
		{"calico.yaml", "calico", "gamma", "values.installation.calicoNetwork.ipPools",
			[]any{pool("fd00:10:20::/56"), pool("10.20.0.0/16")}},
		{"calico.yaml", "calico", "gamma", "values.installation.controlPlaneReplicas", int64(1)},
		{"cilium.yaml", "cilium", long, "values.k8sServiceHost", "beta.example.com"},
		{"cilium.yaml", "cilium", long, "values.k8sServicePort", int64(443)},
		{"cilium.yaml", "cilium", long, "values.kubeProxyReplacement", true},
		{"cilium.yaml", "cilium", long, "values.cluster.name", "beta-with-a-name-longer-than-cil"},
		{"cilium.yaml", "cilium", long, "values.ipam.operator.clusterPoolIPv4PodCIDRList", []any{"10.244.0.0/16"}},
		{"cilium.yaml", "cilium", long, "values.ipam.operator.clusterPoolIPv6PodCIDRList", []any{"fd00:10:244::/56"}},
		{"cilium.yaml", "cilium", long, "values.ipv6.enabled", true},
		{"openstack-cloud-controller-manager.yaml", "openstack-ccm", "alpha", "values.cluster.name", "alpha"},
		{"openstack-cloud-controller-manager.yaml", "openstack-ccm", "alpha", "values.cloudConfig.loadBalancer.subnet-id",
			"a3b0c9d8-3f5e-4c2a-9a44-1e2d3c4b5a33"},
		{"openstack-cloud-controller-manager.yaml", "openstack-ccm", "alpha", "values.cloudConfig.global.region",
			"RegionOne"},
		{"aws-ebs-csi-driver.yaml", "aws-ebs-csi-driver", "aws", "values.controller.region", "eu-central-1"},
		{"cert-manager.yaml", "cert-manager", "eks", "values.webhook.replicaCount", int64(2)},
		{"features/kubernetes-versions.yaml", "vsphere-cpi-versions", "vsphere", "ref.semver", "~1.35"},
		{"features/overrides.yaml", "metrics-server-overridden", "aws", "ref.semver", "~3.13"},
		{"features/overrides.yaml", "metrics-server-overridden", "aws", "values.replicas", int64(2)},
		{"features/tenants.yaml", "policies", "shop", "values.owner", "team-a"},
	} {
		t.Run(strings.Join([]string{tc.helmOp, tc.cluster, tc.path}, "/"), func(t *testing.T) {
			t.Parallel()
			example := readExample(t, tc.file)
			for _, helmOp := range example.helmOps {
				if helmOp.Name != tc.helmOp {
					continue
				}
				rendered := example.render(t, helmOp, tc.cluster)
				got, _, err := unstructured.NestedFieldNoCopy(rendered, strings.Split(tc.path, ".")...)
				if err != nil || !reflect.DeepEqual(got, tc.want) {
					t.Errorf("got %#v (%v), want %#v", got, err, tc.want)
				}
				return
			}
			t.Error("no such HelmOp")
		})
	}
}

// TestHealthChecks checks the health of objects whose operator reports a condition Ready.
func TestHealthChecks(t *testing.T) {
	t.Parallel()
	for file, object := range map[string]string{
		"calico.yaml": "apiVersion: operator.tigera.io/v1\nkind: Installation\n",
		"flux.yaml":   "apiVersion: fluxcd.controlplane.io/v1\nkind: FluxInstance\n",
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			checker, err := health.NewChecker(readExample(t, file).healthChecks())
			if err != nil {
				t.Fatal(err)
			}
			for status, want := range map[string]health.Status{
				"":                    health.InProgress,
				"status: {mtu: 1450}": health.InProgress,
				"status: {conditions: [{type: Ready, status: 'False'}, {type: Progressing, status: 'True'}]}": health.InProgress,
				"status: {conditions: [{type: Degraded, status: 'False'}, {type: Ready, status: 'True'}]}":    health.Current,
			} {
				u := parse(t, status, []byte(object+status))
				if got, message := checker.Check(u, u.GroupVersionKind().Version); got != want {
					t.Errorf("%s: %v (%s), want %v", status, got, message, want)
				}
			}
		})
	}
}

// TestComments checks the beginning of each example: a comment with the requirements of the example, and with a command
// that shows that the example works.
func TestComments(t *testing.T) {
	t.Parallel()
	for _, file := range exampleFiles(t) {
		comment, _, _ := strings.Cut(string(readFile(t, file)), "\napiVersion:")
		for _, part := range []string{"\n# It needs", "\n# See that it works", "\n#   kubectl "} {
			if !strings.HasPrefix(comment, "# ") || !strings.Contains(comment, part) {
				t.Errorf("%s does not begin with a comment that has %q", file, part)
			}
		}
	}
}

// TestReadmeNamesEveryExample checks that the README has a link to each example.
func TestReadmeNamesEveryExample(t *testing.T) {
	t.Parallel()
	readme := readFile(t, "README.md")
	for _, file := range exampleFiles(t) {
		if !bytes.Contains(readme, []byte("("+filepath.ToSlash(file)+")")) {
			t.Errorf("README.md has no link to %s", file)
		}
	}
}

func compare(t *testing.T, golden string, rendered map[string]any) {
	t.Helper()
	got, err := yaml.Marshal(rendered)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./examples -update", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", golden, got, want)
	}
}
