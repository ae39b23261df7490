// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// fleetReleases are the names of the releases by the names of Fleet's HelmOps. The HelmOp "late" has keepResources from
// the beginning.
var fleetReleases = map[string]string{"hello": "hello", "other": "greeter", "late": "late"}

// fleetUnderTest is Fleet, or a simulation.
type fleetUnderTest interface {
	// setAgents starts or stops the agents of all Clusters. Agents that run are started again.
	setAgents(s *scenario, run bool)

	// deleted returns the objects that were deleted in the namespace of the releases, except records of Helm.
	deleted(s *scenario) []string
}

// TestMigrateFleet follows docs/migration.md with a simulation of Fleet. The simulation follows the rules of Fleet,
// with Helm's own actions in the Clusters. The kinds are the real kinds of Fleet.
func TestMigrateFleet(t *testing.T) {
	begin(t)
	s := newScenarioIn(t, ownEnvironment(t, environment.Options{}))
	s.must(s.env.Management.InstallFleetCRDs(s.Context(), s.env.Root()))
	workloads := s.fleetWorkloads(false)
	s.migrateFleet(workloads, s.simulateFleet(workloads))
}

// fleetWorkloads creates the Clusters of a migration from Fleet. Without controllers, the DaemonSets of the charts have
// no status, so Fleet's agent does not find them ready.
func (s *scenario) fleetWorkloads(controllers bool) []*workload {
	s.Helper()
	return s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, Labels: map[string]string{"env": "prod"},
			Controllers: controllers},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}, Labels: map[string]string{"env": "test"},
			Controllers: controllers},
	)
}

// migrateFleet makes Fleet install a chart in Clusters: once with the name of its HelmOp, and once with another name.
// Then HelmOp takes over the objects. The returned function fails the scenario if an object is not the object that
// Fleet has installed.
func (s *scenario) migrateFleet(workloads []*workload, fleet fleetUnderTest) (unchanged func(*scenario)) {
	s.Helper()
	s.createFleetObjects(workloads)
	fleet.setAgents(s, true)
	objects := map[string]map[string]string{}
	for _, w := range workloads {
		for _, release := range fleetReleases {
			w.eventuallyRevisions(fleetNamespace, release, "1 deployed")
		}
		objects[w.name] = w.chartUIDs()
		s.Expect(objects[w.name]).To(gomega.HaveLen(3 * len(fleetReleases)))
	}
	s.eventuallyFleetReady()
	unchanged = func(s *scenario) {
		s.Helper()
		for _, w := range workloads {
			s.Expect(w.in(s).chartUIDs()).To(gomega.Equal(objects[w.name]), "objects in %s", w.name)
		}
		s.Expect(fleet.deleted(s)).To(gomega.BeEmpty())
	}

	s.step("the report says what would happen", func(s *scenario) {
		ca := &corev1.Secret{}
		s.must(s.client.Get(s.Context(), s.key("charts-ca"), ca))
		s.remove(ca)
		s.Expect(s.mustCommand("migrate", "--from", "fleet", "--preview=false")).To(
			gomega.ContainSubstring("create the Secret " + s.namespace + "/charts-ca"))
		s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ca.Namespace, Name: ca.Name}, Data: ca.Data})
		s.Expect(s.mustCommand("migrate", "--from", "fleet")).To(gomega.SatisfyAll(
			gomega.ContainSubstring("Fleet HelmOp "+s.namespace+"/hello"), gomega.ContainSubstring("2 Clusters: one, two"),
			gomega.ContainSubstring("2 of 2 alike: one, two: no changes"),
			gomega.Not(gomega.ContainSubstring("create the Secret")),
			gomega.Not(gomega.ContainSubstring("spec.targets")), gomega.Not(gomega.ContainSubstring("has no label"))))
		s.Expect(s.helmOps()).To(gomega.BeEmpty())
		output, code := s.helmopCommand("migrate", "--from", "fleet", "--apply")
		s.Expect(code).NotTo(gomega.BeZero())
		s.Expect(output).To(gomega.ContainSubstring("--accept-install"))
	})
	s.step("a migration that was interrupted can be undone", func(s *scenario) {
		fleet.setAgents(s, false)
		s.migrateInterrupted(gomega.ContainSubstring("the agent has not deployed the newest options"),
			"migrate", "--from", "fleet", "hello", "other", "--apply", "--accept-install", "--preview=false")
		s.Expect(s.helmOps()).To(gomega.HaveLen(2))
		for _, helmOp := range s.helmOps() {
			s.Expect(helmOp.Spec.Paused).To(gomega.BeTrue())
		}
		s.mustCommand("migrate", "--from", "fleet", "--undo", "--timeout", patience.String())
		s.Expect(s.helmOps()).To(gomega.BeEmpty())
		for name := range fleetReleases {
			object := s.fleetHelmOp(name)
			s.Expect(object.GetAnnotations()).To(gomega.BeEmpty())
			kept, _, err := unstructured.NestedBool(object.Object, "spec", "keepResources")
			s.must(err)
			s.Expect(kept).To(gomega.Equal(name == "late"), name)
		}
		unchanged(s)
	})
	s.step("an agent that was stopped forgets a release later", func(s *scenario) {
		migrateLate := []string{"migrate", "--from", "fleet", "late", "--apply", "--accept-install", "--preview=false"}
		s.migrateInterrupted(gomega.ContainSubstring("Fleet has not forgotten all releases"), migrateLate...)
		s.Expect(s.helmOps()).To(gomega.HaveLen(1))
		s.Expect(s.helmOps()[0].Spec.Paused).To(gomega.BeTrue())
		fleet.setAgents(s, true)
		s.mustCommand(append(migrateLate, "--timeout", patience.String())...)
		for _, w := range workloads {
			w.in(s).eventuallyRevisions(fleetNamespace, "late", "1 deployed")
		}
		unchanged(s)
	})
	s.step("HelmOp installs the charts over the objects", func(s *scenario) {
		// The agents deploy without the option again.
		s.eventuallyFleetReady()
		output := s.mustCommand("migrate", "--from", "fleet", "--apply", "--accept-install", "--timeout", patience.String())
		s.Logf("%s", output)
		s.Expect(s.leftOfFleet()).To(gomega.BeEmpty())
		unchanged(s)
		for _, w := range workloads {
			w.in(s).eventuallyRevisions(fleetNamespace, "hello", "1 deployed")
			revisions, err := w.revisions(s.Context(), fleetNamespace, "greeter")
			s.must(err)
			s.Expect(revisions[len(revisions)-1].Status).To(gomega.Equal("deployed"))
			w.in(s).eventuallyHello(fleetNamespace, "hello", map[string]string{"cluster": w.name, "greeting": "fleet"})
		}
		s.Expect(s.helmOps()).To(gomega.HaveLen(len(fleetReleases)))
		for _, helmOp := range s.helmOps() {
			s.Expect(helmOp.Spec.Paused).To(gomega.BeFalse())
			s.Expect(helmOp.Annotations).NotTo(gomega.HaveKey(addonsv1.MigrationAnnotation))
		}
		s.Expect(s.mustCommand("migrate", "--from", "fleet", "--apply", "--accept-install")).To(
			gomega.ContainSubstring("nothing to migrate"))
	})
	s.step("from now on HelmOp upgrades them", func(s *scenario) {
		helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hello"}}
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref = addonsv1.ArtifactReference{Tag: "1.1.0"} })
		for _, w := range workloads {
			w.in(s).eventuallyRevisions(fleetNamespace, "hello", "1 superseded", "2 deployed")
		}
		unchanged(s)
	})
	return unchanged
}

// eventuallyFleetReady waits until the releases of Fleet are ready, as a migration needs them.
func (s *scenario) eventuallyFleetReady() {
	s.Helper()
	s.Eventually(func() string { return s.mustCommand("migrate", "--from", "fleet", "--preview=false") }).WithContext(
		s.Context()).ShouldNot(gomega.Or(gomega.ContainSubstring("is not ready"), gomega.ContainSubstring("has no release")))
}

// chartUIDs returns the UIDs of the objects of the charts in the namespace of the releases of Fleet.
func (w *workload) chartUIDs() map[string]string {
	w.scenario.Helper()
	uids := map[string]string{}
	for name, state := range w.scenario.charted([]*workload{w})[0].objects {
		if strings.Contains(name, " "+fleetNamespace+"/") {
			uids[name], _, _ = strings.Cut(state, " ")
		}
	}
	return uids
}

// createFleetObjects creates HelmOps of Fleet, the Secrets that they need, and a Cluster of Fleet for each Cluster, as
// Fleet's add-on provider for Cluster API does.
func (s *scenario) createFleetObjects(workloads []*workload) {
	s.Helper()
	credentials, err := s.env.Registry.DockerConfigJSON()
	s.must(err)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "charts"},
		StringData: map[string]string{"username": s.env.Registry.Username(), "password": s.env.Registry.Password(),
			"cacerts": string(s.env.Registry.CA())}})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "charts-dockerconfigjson"},
		Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: credentials}})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "charts-ca"},
		Data: map[string][]byte{"ca.crt": s.env.Registry.CA()}})
	for _, w := range workloads {
		capi, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.cluster(w.name))
		s.must(err)
		cluster := toolObject(migrate.FleetClusterKind, s.namespace, w.name, map[string]any{
			"kubeConfigSecret": w.name + "-kubeconfig", "templateValues": map[string]any{"Cluster": capi}})
		cluster.SetLabels(s.cluster(w.name).Labels)
		s.create(cluster)
	}
	for name, release := range fleetReleases {
		helmOp := s.newFleetHelmOp(name, release)
		s.must(unstructured.SetNestedField(helmOp.Object, name == "late", "spec", "keepResources"))
		s.create(helmOp)
	}
}

// newFleetHelmOp returns a HelmOp of Fleet for all its clusters, with the name of its releases.
func (s *scenario) newFleetHelmOp(name, release string) *unstructured.Unstructured {
	return toolObject(migrate.FleetHelmOpKind, s.namespace, name, map[string]any{
		"defaultNamespace": fleetNamespace, "helmSecretName": "charts", "deleteCRDResources": true,
		"targets": []any{map[string]any{"clusterSelector": map[string]any{}}},
		"helm": map[string]any{
			"repo": "oci://" + s.env.Registry.Host() + "/charts/" + environment.ChartHello, "version": "1.0.0",
			"releaseName": release, "values": map[string]any{"cluster": "${ .ClusterName }", "greeting": "fleet",
				"podCIDR": "${ index .ClusterValues.Cluster.spec.clusterNetwork.pods.cidrBlocks 0 }"},
		}})
}

// fleetHelmOp reads a HelmOp of Fleet.
func (s *scenario) fleetHelmOp(name string) *unstructured.Unstructured {
	s.Helper()
	object := toolObject(migrate.FleetHelmOpKind, s.namespace, name, nil)
	s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(object), object))
	return object
}

// leftOfFleet returns the objects of Fleet that a migration deletes. Fleet also has Bundles for its agents.
func (s *scenario) leftOfFleet() []string {
	s.Helper()
	var names []string
	for _, kind := range []schema.GroupVersionKind{migrate.FleetHelmOpKind, migrate.FleetBundleKind,
		migrate.FleetDeploymentKind} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		s.must(s.client.List(s.Context(), list))
		for i := range list.Items {
			if item := &list.Items[i]; !strings.HasPrefix(item.GetName(), "fleet-agent-") {
				names = append(names, fmt.Sprintf("%s %s/%s", kind.Kind, item.GetNamespace(), item.GetName()))
			}
		}
	}
	return names
}
