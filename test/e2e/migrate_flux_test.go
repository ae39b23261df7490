// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// fluxInterval is how often Flux reconciles each HelmRelease.
const fluxInterval = 5 * time.Second

// TestMigrateFlux is the walk of docs/migration.md: the helm-controller of Flux installs three charts in two Clusters,
// two of them from OCIRepositories and one from a HelmRepository. HelmOp takes the releases over while Flux runs.
func TestMigrateFlux(t *testing.T) {
	beginMigration(t)
	s := newScenarioIn(t, ownEnvironment(t, environment.Options{}))
	s.startTool("flux", s.env.Management.StartFlux,
		testbed.ToolOptions{Args: []string{"--requeue-dependency=1s", "--interval-jitter-percentage=0"}})
	workloads := s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}},
	)
	source := s.startFluxSource(environment.ChartHello, environment.ChartKitchen, environment.ChartSlow)
	source.createRepositories()
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "kitchen-values"},
		Data: map[string]string{"values.yaml": "objects: 3\n"}})
	for _, w := range workloads {
		s.opaque(w.name+"-flavour", map[string][]byte{"flavour": []byte("sour-in-" + w.name)})
		s.must(w.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
		s.createHelmReleases(w.name)
	}
	source.completeHelmCharts(2)
	for _, w := range workloads {
		w.completeJob(w.eventuallyJob("slow-system", "slow", ""))
	}
	s.eventuallyHelmReleases(6)
	s.step("records in another namespace must be moved", func(s *scenario) {
		blocked, code := s.helmopCommand("migrate", "--from", "flux", "hello", "--apply")
		s.Expect(code).NotTo(gomega.Equal(0), blocked)
		s.Expect(blocked).To(gomega.MatchRegexp(`solve this first:\n.*spec.storageNamespace: .* namespace "` + s.namespace))
		for _, w := range workloads {
			s.moveRecords(w.in(s), w.name+"-hello", "hello-system-"+w.name+"-hello", "hello-system")
		}
		s.eventuallyHelmReleases(6)
	})
	before := s.charted(workloads)
	for i, state := range before {
		// 3 of hello, 5 and 2 hooks and a CRD of kitchen, 1 and a hook of slow, and 3 namespaces.
		s.Expect(state.objects).To(gomega.HaveLen(16), "objects in %s: %v", workloads[i].name, state.objects)
		s.Expect(state.records).To(gomega.HaveLen(3), "records in %s", workloads[i].name)
	}
	unchanged := func(s *scenario) {
		s.Helper()
		s.Expect(s.charted(workloads)).To(gomega.Equal(before))
		s.Consistently(func() []charted { return s.charted(workloads) }, 2*fluxInterval).Should(gomega.Equal(before))
	}

	s.step("the report says what would happen", func(s *scenario) {
		report := s.mustCommand("migrate", "--from", "flux")
		s.Logf("%s", report)
		for _, chart := range []string{"hello", "kitchen", "slow"} {
			s.Expect(report).To(gomega.SatisfyAll(
				gomega.ContainSubstring("HelmRelease "+s.namespace+"/one-"+chart+" and 1 more"),
				gomega.ContainSubstring("HelmOp "+s.namespace+"/"+chart+"\n  2 Clusters: one, two")))
		}
		s.Expect(strings.Count(report, "2 of 2 alike: one, two: no changes")).To(gomega.Equal(3), report)
		s.Expect(report).NotTo(gomega.ContainSubstring("to be solved"))
		s.Expect(s.helmOps()).To(gomega.BeEmpty())
		s.Expect(s.mustCommand("migrate", "--from", "flux", "-o", "yaml")).To(gomega.ContainSubstring("kind: HelmOp"))
	})
	s.step("a migration that was interrupted can be undone", func(s *scenario) {
		// HelmOp cannot adopt the releases of a paused Cluster, so the command ends before all releases are adopted.
		s.pause("two", true)
		s.migrateInterrupted(gomega.MatchRegexp(`releases? (is|are) not adopted: timed out`),
			"migrate", "--from", "flux", "--apply")
		s.pause("two", false)
		s.mustCommand("migrate", "--from", "flux", "--undo", "--timeout", patience.String())
		s.Expect(s.helmOps()).To(gomega.BeEmpty())
		for _, release := range s.helmReleases() {
			s.Expect(release.GetAnnotations()).NotTo(gomega.HaveKey(addonsv1.MigrationAnnotation), release.GetName())
		}
		for _, w := range workloads {
			s.Expect(s.cluster(w.name).Labels).NotTo(
				gomega.HaveKey(gomega.HavePrefix(addonsv1.MigratedClusterLabelPrefix)))
		}
		// Flux reconciles the releases again.
		s.eventuallyHelmReleases(6)
		unchanged(s)
	})
	s.step("HelmOp adopts the releases without a change", func(s *scenario) {
		output := s.mustCommand("migrate", "--from", "flux", "--apply", "--timeout", patience.String())
		s.Logf("%s", output)
		s.Expect(output).NotTo(gomega.ContainSubstring("warning"))
		s.Expect(s.helmReleases()).To(gomega.BeEmpty())
		s.Expect(s.helmOps()).To(gomega.HaveLen(3), "the names in valuesFrom follow the names of the Clusters")
		unchanged(s)
		s.Expect(s.toolObjects(helmChartKind)).To(gomega.HaveLen(2), "the HelmCharts that Flux created stay")
		// A second run has nothing to do.
		s.Expect(s.mustCommand("migrate", "--from", "flux", "--apply")).To(gomega.ContainSubstring("nothing to migrate"))
	})
	s.step("from now on HelmOp upgrades them", func(s *scenario) {
		for _, chart := range []string{"hello", "kitchen", "slow"} {
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: chart}}
			update(s, helmOp, func(h *addonsv1.HelmOp) {
				h.Spec.Source.Ref = addonsv1.ArtifactReference{Tag: "1.1.0"}
				h.Spec.Health = withoutHealth()
			})
		}
		for _, w := range workloads {
			w := w.in(s)
			release := "hello-system-" + w.name + "-hello"
			w.eventuallyRevisions("hello-system", release, "1 superseded", "2 deployed")
			w.eventuallyRevisions("kitchen-system", "kitchen", "1 superseded", "2 deployed")
			w.eventuallyRevisions("slow-system", "slow", "1 superseded", "2 deployed")
			w.eventuallyHello("hello-system", release, map[string]string{"cluster": "flux", "greeting": fluxGreeting,
				"chartVersion": "1.1.0"})
			configMap := &corev1.ConfigMap{}
			s.must(w.Get(s.Context(), client.ObjectKey{Namespace: "hello-system", Name: release}, configMap))
			s.Expect(configMap.Labels).NotTo(gomega.HaveKey(gomega.HavePrefix("helm.toolkit.fluxcd.io")))
		}
		for _, helmOp := range s.helmOps() {
			s.eventually(&helmOp, ready(2))
		}
	})
}
