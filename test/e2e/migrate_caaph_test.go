// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// caaphSyncPeriod makes CAAPH reconcile all its objects many times during the test.
const caaphSyncPeriod = 5 * time.Second

// TestMigrateCAAPH follows docs/migration.md. CAAPH installs three charts in four Clusters: one with generated release
// names, and one from an HTTPS chart repository. HelmOp takes over the releases while CAAPH runs. At the end, CAAPH
// takes over some releases again.
func TestMigrateCAAPH(t *testing.T) {
	begin(t)
	s := newScenarioIn(t, ownEnvironment(t, environment.Options{}))
	repository := s.chartRepository()
	_, err := repository.Add(registry.ChartDir(s.chartFolder(environment.ChartKitchen)))
	s.must(err)
	// CAAPH uses the authorities of the system for chart repositories, and spec.tlsConfig only for registries.
	authorities := filepath.Join(s.TempDir(), "ca.crt")
	s.must(os.WriteFile(authorities, repository.CA(), 0o600))
	s.startTool("caaph", s.env.Management.StartCAAPH, testbed.ToolOptions{
		Args: []string{"--sync-period=" + caaphSyncPeriod.String()}, Env: []string{"SSL_CERT_FILE=" + authorities}})
	workloads := s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, Region: "north"},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}, Region: "south"},
		testbed.ClusterOptions{Name: "three", PodCIDRs: []string{"10.3.0.0/16"}, Region: "east"},
		testbed.ClusterOptions{Name: "four", PodCIDRs: []string{"10.4.0.0/16"}, Region: "west"},
	)
	hello := s.chartProxy("hello", environment.ChartHello, "hello", "hello-system", `
cluster: {{ .Cluster.metadata.name }}
podCIDR: {{ index .Cluster.spec.clusterNetwork.pods.cidrBlocks 0 }}
region: {{ .InfraCluster.spec.region | upper }}
`)
	kitchen := s.chartProxy("kitchen", environment.ChartKitchen, "kitchen", "kitchen-system", `
objects: 3
flavour: {{ .ControlPlane.metadata.name | quote }}
`)
	ca := s.opaque("kitchen-ca", map[string][]byte{"ca.crt": repository.CA()})
	s.must(unstructured.SetNestedField(kitchen.Object, repository.URL(), "spec", "repoURL"))
	s.must(unstructured.SetNestedField(kitchen.Object, ca.Name, "spec", "tlsConfig", "caSecret", "name"))
	unstructured.RemoveNestedField(kitchen.Object, "spec", "credentials")
	s.create(hello.DeepCopy())
	s.create(kitchen.DeepCopy())
	s.create(s.chartProxy("slow", environment.ChartSlow, "", "slow-system", `
greeting: '{{ if hasPrefix "t" .Cluster.metadata.name }}t{{ else }}other{{ end }}'
`))
	s.eventuallyProxied(12)
	before := s.charted(workloads)
	for i, state := range before {
		s.Expect(state.objects).NotTo(gomega.BeEmpty(), "objects of the charts in %s", workloads[i].name)
		// CAAPH may have installed a chart twice if it generated the name: it stores the name after the installation.
		s.Expect(len(state.records)).To(gomega.BeNumerically(">=", 3), "records in %s", workloads[i].name)
	}
	unchanged := func(s *scenario) {
		s.Helper()
		s.Expect(s.charted(workloads)).To(gomega.Equal(before))
	}

	s.step("the report says what would happen", func(s *scenario) {
		report := s.mustCommand("migrate", "--from", "caaph")
		s.Expect(report).To(gomega.SatisfyAll(gomega.ContainSubstring("HelmChartProxy "+s.namespace+"/hello"),
			gomega.ContainSubstring("4 Clusters: four, one, three and 1 more"),
			gomega.ContainSubstring("4 of 4 alike: four, one, three, ...: no changes"),
			gomega.Not(gomega.ContainSubstring("to be solved")), gomega.Not(gomega.ContainSubstring("no preview"))), report)
		s.Logf("%s", report)
		s.Expect(s.helmOps()).To(gomega.BeEmpty())
		s.Expect(s.mustCommand("migrate", "--from", "caaph", "-o", "yaml")).To(gomega.ContainSubstring("kind: HelmOp"))
	})
	s.step("a migration that was interrupted can be undone", func(s *scenario) {
		// HelmOp cannot adopt the releases of a paused Cluster, so the command ends before all releases are adopted.
		s.pause("four", true)
		s.migrateInterrupted(gomega.And(gomega.MatchRegexp(`releases? (is|are) not adopted: timed out`),
			gomega.ContainSubstring("hello: 1 Cluster is paused")), "migrate", "--from", "caaph", "--apply")
		// A HelmOp that would change a release is reported at once, and --timeout does not count.
		s.label("four", "differs", "true")
		update(s, s.helmOp("hello"), func(h *addonsv1.HelmOp) {
			h.Spec.Overrides = []addonsv1.Override{{Name: "differs", Values: rawJSON(map[string]any{"greeting": "other"}),
				ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"differs": "true"}}}}
		})
		s.pause("four", false)
		began := time.Now()
		output, code := s.helmopCommand("migrate", "--from", "caaph", "hello", "--apply", "--timeout", "1h")
		s.Logf("exit code %d after %s: %s", code, time.Since(began), output)
		s.Expect(code).NotTo(gomega.Equal(0), output)
		s.Expect(output).To(gomega.MatchRegexp(`hello: Cluster four: AdoptionWouldChange: .*ConfigMap`), output)
		s.Expect(output).To(gomega.ContainSubstring("1 release is not adopted: HelmOp does not continue before"), output)
		s.mustCommand("migrate", "--from", "caaph", "--undo", "--timeout", patience.String())
		s.Expect(s.helmOps()).To(gomega.BeEmpty())
		for _, proxy := range s.proxies() {
			s.Expect(proxy.GetAnnotations()).NotTo(gomega.HaveKey("cluster.x-k8s.io/paused"), proxy.GetName())
			s.Expect(proxy.GetAnnotations()).NotTo(gomega.HaveKey(addonsv1.MigrationAnnotation), proxy.GetName())
		}
		for _, w := range workloads {
			s.Expect(s.cluster(w.name).Annotations).NotTo(
				gomega.HaveKey(gomega.HavePrefix(addonsv1.ReleaseNameAnnotationPrefix)))
		}
		unchanged(s)
	})
	s.step("HelmOp adopts the releases without a change", func(s *scenario) {
		output := s.mustCommand("migrate", "--from", "caaph", "--apply", "--timeout", patience.String())
		s.Logf("%s", output)
		s.Expect(output).NotTo(gomega.ContainSubstring("warning"))
		s.Expect(s.proxies()).To(gomega.BeEmpty())
		s.Expect(s.helmOps()).To(gomega.HaveLen(3))
		unchanged(s)
		s.Consistently(func() []charted { return s.charted(workloads) }, 2*caaphSyncPeriod).Should(gomega.Equal(before))
		// A second run has nothing to do.
		s.Expect(s.mustCommand("migrate", "--from", "caaph", "--apply")).To(gomega.ContainSubstring("nothing to migrate"))
	})
	s.step("from now on HelmOp upgrades them", func(s *scenario) {
		update(s, s.helmOp("slow"), func(h *addonsv1.HelmOp) { h.Spec.Source.Ref = addonsv1.ArtifactReference{Tag: "1.1.0"} })
		for _, w := range workloads {
			name := s.generatedName(w)
			w.in(s).eventuallyRevisions("slow-system", name, "1 superseded", "2 deployed")
		}
	})
	s.step("CAAPH takes releases back", func(s *scenario) {
		before := s.charted(workloads)
		update(s, s.helmOp("hello"), func(h *addonsv1.HelmOp) { h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan })
		for name, flag := range map[string]string{"hello": "--cascade=background", "kitchen": "--cascade=orphan"} {
			_, err := s.env.Management.Kubectl(s.Context(), "delete", "helmops.addons.cluster.x-k8s.io", name,
				"--namespace", s.namespace, flag)
			s.must(err)
			s.eventuallyGone(s.helmOp(name))
		}
		s.Expect(s.charted(workloads)).To(gomega.Equal(before))
		s.create(hello.DeepCopy())
		s.create(kitchen.DeepCopy())
		s.eventuallyProxied(8)
		s.Expect(s.charted(workloads)).To(gomega.Equal(before))
		s.Consistently(func() []charted { return s.charted(workloads) }, 2*caaphSyncPeriod).Should(gomega.Equal(before))
	})
}

// helmOp names a HelmOp of the scenario.
func (s *scenario) helmOp(name string) *addonsv1.HelmOp {
	return &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

// chartProxy returns a HelmChartProxy for all Clusters. Without a release name, CAAPH generates the names.
func (s *scenario) chartProxy(name, chart, release, namespace, values string) *unstructured.Unstructured {
	spec := map[string]any{
		"clusterSelector": map[string]any{},
		"repoURL":         "oci://" + s.env.Registry.Host() + "/charts",
		"chartName":       chart,
		"version":         "1.0.0",
		"namespace":       namespace,
		"valuesTemplate":  values,
		"credentials": map[string]any{
			"secret": map[string]any{"name": environment.CredentialsSecret}, "key": corev1.DockerConfigJsonKey,
		},
		"tlsConfig": map[string]any{"caSecret": map[string]any{"name": environment.CASecret}},
	}
	if release != "" {
		spec["releaseName"] = release
	}
	return toolObject(migrate.HelmChartProxyKind, s.namespace, name, spec)
}

// proxies returns the HelmChartProxies and HelmReleaseProxies of the scenario.
func (s *scenario) proxies() []unstructured.Unstructured {
	s.Helper()
	return s.toolObjects(migrate.HelmChartProxyKind, migrate.HelmReleaseProxyKind)
}

// eventuallyProxied waits until so many HelmReleaseProxies are Ready.
func (s *scenario) eventuallyProxied(n int) {
	s.Helper()
	s.Eventually(func(g gomega.Gomega) {
		ready := 0
		for _, proxy := range s.proxies() {
			status, _, _ := unstructured.NestedString(proxy.Object, "status", "status")
			if status == "deployed" {
				ready++
			}
		}
		g.Expect(ready).To(gomega.Equal(n), "releases that CAAPH has installed: %s", toJSON(s.proxies()))
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// generatedName returns the name of the release that CAAPH generated in a Cluster.
func (s *scenario) generatedName(w *workload) string {
	s.Helper()
	name := s.cluster(w.name).Annotations[addonsv1.ReleaseNameAnnotationPrefix+"/slow"]
	s.Expect(name).To(gomega.HavePrefix("slow-"))
	return name
}
