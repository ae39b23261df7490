// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestMigrateFleet is the walk of docs/migration.md: Fleet installs a chart in two Clusters, once with the name of its
// HelmOp and once with another name. HelmOp takes the objects over. Fleet is a simulation by its rules, with Helm's own
// actions in the Clusters.
func TestMigrateFleet(t *testing.T) {
	begin(t)
	s := newScenarioIn(t, ownEnvironment(t, environment.Options{}))
	s.installFleetKinds()
	workloads := s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, Labels: map[string]string{"env": "prod"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}, Labels: map[string]string{"env": "test"}},
	)
	fleet := s.startFleet(workloads, map[string]string{"hello": "hello", "other": "greeter"})
	objects := map[string]map[string]string{}
	for _, w := range workloads {
		for _, release := range []string{"hello", "greeter"} {
			w.eventuallyRevisions(fleetNamespace, release, "1 deployed")
		}
		objects[w.name] = w.chartUIDs()
		s.Expect(objects[w.name]).To(gomega.HaveLen(6))
	}
	unchanged := func(s *scenario) {
		s.Helper()
		for _, w := range workloads {
			s.Expect(w.in(s).chartUIDs()).To(gomega.Equal(objects[w.name]), "objects in %s", w.name)
		}
		s.Expect(fleet.uninstalled()).To(gomega.BeEmpty())
	}

	s.step("the report says what would happen", func(s *scenario) {
		s.Eventually(func() string { return s.mustCommand("migrate", "--from", "fleet") }).WithContext(s.Context()).Should(
			gomega.SatisfyAll(gomega.ContainSubstring("Fleet HelmOp "+s.namespace+"/hello"),
				gomega.ContainSubstring("2 Clusters: one, two"),
				gomega.ContainSubstring("2 of 2 alike: one, two: no changes"),
				gomega.ContainSubstring("create the Secret "+s.namespace+"/charts-ca"),
				gomega.Not(gomega.ContainSubstring("spec.targets")), gomega.Not(gomega.ContainSubstring("has no label"))))
		s.Expect(s.helmOps()).To(gomega.BeEmpty())
		output, code := s.helmopCommand("migrate", "--from", "fleet", "--apply")
		s.Expect(code).NotTo(gomega.BeZero())
		s.Expect(output).To(gomega.ContainSubstring("--accept-install"))
	})
	s.step("a migration that was interrupted can be undone", func(s *scenario) {
		fleet.setAgents(false)
		output, code := s.helmopCommand("migrate", "--from", "fleet", "--apply", "--accept-install", "--preview=false",
			"--timeout", "15s")
		s.Expect(code).NotTo(gomega.BeZero())
		s.Expect(output).To(gomega.ContainSubstring("the agent has not deployed the newest options"))
		for _, helmOp := range s.helmOps() {
			s.Expect(helmOp.Spec.Paused).To(gomega.BeTrue())
		}
		s.mustCommand("migrate", "--from", "fleet", "--undo", "--timeout", patience.String())
		s.Expect(s.helmOps()).To(gomega.BeEmpty())
		for _, name := range []string{"hello", "other"} {
			object := fleet.helmOp(name)
			s.Expect(object.GetAnnotations()).To(gomega.BeEmpty())
			_, found, err := unstructured.NestedBool(object.Object, "spec", "keepResources")
			s.must(err)
			s.Expect(found).To(gomega.BeFalse())
		}
		unchanged(s)
	})
	s.step("HelmOp installs the charts over the objects", func(s *scenario) {
		fleet.setAgents(true)
		// The agents deploy without the option again.
		s.Eventually(func() string { return s.mustCommand("migrate", "--from", "fleet", "--preview=false") }).WithContext(
			s.Context()).ShouldNot(gomega.ContainSubstring("is not ready"))
		output := s.mustCommand("migrate", "--from", "fleet", "--apply", "--accept-install", "--timeout", patience.String())
		s.Logf("%s", output)
		s.Expect(fleet.left()).To(gomega.BeEmpty())
		unchanged(s)
		for _, w := range workloads {
			w.in(s).eventuallyRevisions(fleetNamespace, "hello", "1 deployed")
			revisions, err := w.revisions(s.Context(), fleetNamespace, "greeter")
			s.must(err)
			s.Expect(revisions[len(revisions)-1].Status).To(gomega.Equal("deployed"))
			w.in(s).eventuallyHello(fleetNamespace, "hello", map[string]string{"cluster": w.name, "greeting": "fleet"})
		}
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
}

// installFleetKinds creates CustomResourceDefinitions for the kinds of Fleet. Their objects have all fields.
func (s *scenario) installFleetKinds() {
	s.Helper()
	keep := true
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range []schema.GroupVersionKind{migrate.FleetHelmOpKind, migrate.FleetBundleKind,
		migrate.FleetDeploymentKind, migrate.FleetClusterKind, migrate.FleetGroupKind} {
		singular := strings.ToLower(kind.Kind)
		definition := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + kind.Group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind, ListKind: kind.Kind + "List",
					Singular: singular, Plural: singular + "s"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: kind.Version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: &keep}},
					Subresources: &apiextensionsv1.CustomResourceSubresources{
						Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				}}},
		}
		all = append(all, definition)
	}
	_, err := envtest.InstallCRDs(s.env.Management.Server.RESTConfig(), envtest.CRDInstallOptions{CRDs: all,
		MaxTime: patience})
	s.must(err)
}

// chartUIDs returns the UIDs of the objects of the charts in a cluster.
func (w *workload) chartUIDs() map[string]string {
	w.scenario.Helper()
	uids := map[string]string{}
	for name, state := range w.scenario.charted([]*workload{w})[0].objects {
		uid, _, _ := strings.Cut(state, " ")
		uids[name] = uid
	}
	return uids
}

// startFleet creates HelmOps of Fleet, with the names of their releases, and starts a simulation of Fleet. It is
// stopped at the end of the test.
func (s *scenario) startFleet(workloads []*workload, releases map[string]string) *fleetSimulation {
	s.Helper()
	credentials, err := s.env.Registry.DockerConfigJSON()
	s.must(err)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "charts"},
		Data: map[string][]byte{"username": []byte("a"), "password": []byte("b"), "cacerts": s.env.Registry.CA()}})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "charts-dockerconfigjson"},
		Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: credentials}})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "charts-ca"},
		Data: map[string][]byte{"ca.crt": s.env.Registry.CA()}})
	fleet := &fleetSimulation{scenario: s, releases: releases, isRunning: true, users: map[string]*helmUser{}}
	for _, w := range workloads {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + w.name}}
		s.create(namespace)
		s.create(toolObject(migrate.FleetClusterKind, s.namespace, w.name,
			map[string]any{"kubeConfigSecret": w.name + "-kubeconfig"}))
		cluster := &unstructured.Unstructured{}
		cluster.SetGroupVersionKind(migrate.FleetClusterKind)
		cluster.SetNamespace(s.namespace)
		cluster.SetName(w.name)
		update(s, cluster, func(o *unstructured.Unstructured) { o.SetLabels(s.cluster(w.name).Labels) })
		fleet.workloads, fleet.users[w.name] = append(fleet.workloads, w), w.helmUserIn(fleetNamespace)
	}
	for name, release := range releases {
		helmOp := toolObject(migrate.FleetHelmOpKind, s.namespace, name, map[string]any{
			"defaultNamespace": fleetNamespace, "helmSecretName": "charts", "deleteCRDResources": true,
			"targets": []any{map[string]any{"clusterSelector": map[string]any{}}},
			"helm": map[string]any{
				"repo": "oci://" + s.env.Registry.Host() + "/charts/" + environment.ChartHello, "version": "1.0.0",
				"releaseName": release, "values": map[string]any{"cluster": "${ .ClusterName }", "greeting": "fleet",
					"podCIDR": "${ index .ClusterValues.Cluster.spec.clusterNetwork.pods.cidrBlocks 0 }"},
			}})
		helmOp.SetFinalizers([]string{"fleet.cattle.io/helmop-finalizer"})
		s.create(helmOp)
	}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		fleet.run(ctx)
	}()
	s.Cleanup(func() {
		cancel()
		<-done
	})
	return fleet
}

// uninstalled returns the releases that agents have uninstalled, and errors of the simulation.
func (f *fleetSimulation) uninstalled() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return append([]string(nil), f.faults...)
}

// setAgents starts or stops the agents.
func (f *fleetSimulation) setAgents(run bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.isRunning = run
}

// helmOp reads a HelmOp of Fleet.
func (f *fleetSimulation) helmOp(name string) *unstructured.Unstructured {
	object := toolObject(migrate.FleetHelmOpKind, f.scenario.namespace, name, nil)
	f.scenario.must(f.scenario.client.Get(f.scenario.Context(), client.ObjectKeyFromObject(object), object))
	return object
}

// left returns the objects of Fleet that a migration deletes.
func (f *fleetSimulation) left() []string {
	var names []string
	for _, kind := range []schema.GroupVersionKind{migrate.FleetHelmOpKind, migrate.FleetBundleKind,
		migrate.FleetDeploymentKind} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		f.scenario.must(f.scenario.client.List(f.scenario.Context(), list))
		for i := range list.Items {
			names = append(names, fmt.Sprintf("%s %s/%s", kind.Kind, list.Items[i].GetNamespace(), list.Items[i].GetName()))
		}
	}
	return names
}
