// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// TestMigrateHelm is the walk of docs/migration.md: Helm has installed two charts in two Clusters. HelmOp takes the
// releases over, one with a chart of a registry and one with a chart of a chart repository.
func TestMigrateHelm(t *testing.T) {
	s := newScenario(t)
	workloads := s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}},
	)
	repository := s.chartRepository()
	_, err := repository.Add(registry.ChartDir(s.chartFolder(environment.ChartKitchen)))
	s.must(err)
	ca := s.opaque("kitchen-ca", map[string][]byte{"ca.crt": repository.CA()})
	for _, w := range workloads {
		hello := w.helmUser()
		hello.install("hello")
		hello.upgrade("hello")
		w.helmUserIn("kitchen-system").installChart("kitchen", s.loadChart(environment.ChartKitchen),
			map[string]any{"objects": 3, "flavour": "sour"})
	}
	before := s.charted(workloads)
	for i, state := range before {
		// 3 of hello, 5 and 2 hooks and a CRD of kitchen, and 2 namespaces.
		s.Expect(state.objects).To(gomega.HaveLen(13), "objects in %s: %v", workloads[i].name, state.objects)
		s.Expect(state.records).To(gomega.HaveLen(3), "records in %s", workloads[i].name)
	}
	for name, args := range map[string][]string{
		"hello": {"--release", releaseNamespace + "/hello", "--chart-secret", environment.CredentialsSecret,
			"--chart-url", "oci://" + s.env.Registry.Host() + "/charts/hello", "--chart-cert-secret", environment.CASecret},
		"kitchen": {"--release", "kitchen-system/kitchen", "--chart-url", repository.URL(), "--chart-cert-secret", ca.Name},
	} {
		args = append([]string{"migrate", "--from", "helm"}, args...)
		report := s.mustCommand(args...)
		s.Expect(report).To(gomega.ContainSubstring("2 of 2 alike: one, two: no changes"))
		output := s.mustCommand(append(args, "--apply", "--timeout", patience.String())...)
		s.Expect(output).To(gomega.ContainSubstring("HelmOp " + s.namespace + "/" + name + " has adopted 2 releases"))
		s.Expect(output).NotTo(gomega.ContainSubstring("warning"))
	}
	s.Expect(s.charted(workloads)).To(gomega.Equal(before))
	s.Consistently(func() []charted { return s.charted(workloads) }).Should(gomega.Equal(before))

	// From now on HelmOp upgrades them. The values of the releases stay.
	upgrade := func(name string, change func(*addonsv1.HelmOp)) {
		s.Helper()
		helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		update(s, helmOp, func(h *addonsv1.HelmOp) {
			h.Spec.Health = withoutHealth()
			change(h)
		})
		s.eventually(helmOp, ready(2))
	}
	upgrade("hello", func(h *addonsv1.HelmOp) { h.Spec.Source.Ref = addonsv1.ArtifactReference{Tag: "1.1.0"} })
	upgrade("kitchen", func(h *addonsv1.HelmOp) { h.Spec.Values = rawJSON(map[string]any{"flavour": "sweet"}) })
	for _, w := range workloads {
		w.eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 superseded", "3 deployed")
		w.eventuallyHello(releaseNamespace, "hello", map[string]string{"cluster": "by hand", "chartVersion": "1.1.0"})
		w.eventuallyRevisions("kitchen-system", "kitchen", "1 superseded", "2 deployed")
		last := &corev1.ConfigMap{}
		s.must(w.Get(s.Context(), client.ObjectKey{Namespace: "kitchen-system", Name: "kitchen-2"}, last))
		s.Expect(last.Data).To(gomega.HaveKeyWithValue("flavour", "sweet"))
	}
}
