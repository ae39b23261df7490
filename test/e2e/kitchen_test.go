// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestKitchenSinkChart installs, upgrades and uninstalls a chart with all features: CRDs and an object of them, hooks,
// a subchart, a schema, hundreds of objects.
func TestKitchenSinkChart(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one"})[0]
	helmOp := s.newHelmOp("kitchen", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Source = s.env.Source("charts/"+environment.ChartKitchen, addonsv1.ArtifactReference{Tag: "1.0.0"})
		h.Spec.Values = rawJSON(map[string]any{"objects": 200, "flavour": "sweet", "pantry": map[string]any{"shelves": 3}})
	})

	s.step("install", func(s *scenario) {
		one := one.in(s)
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, "kitchen", 1)
		one.expectKitchen(200, "sweet")
		for name, want := range map[string]map[string]string{
			"kitchen-pre-install":  {"revision": "1"},
			"kitchen-post-install": {"revision": "1"},
			"kitchen-pantry":       {"shelves": "3"},
			"kitchen-pre-upgrade":  nil,
		} {
			one.expectConfigMap(name, want)
		}
	})
	s.step("upgrade", func(s *scenario) {
		one := one.in(s)
		update(s, helmOp, func(h *addonsv1.HelmOp) {
			h.Spec.Source.Ref.Tag = "1.1.0"
			h.Spec.Values = rawJSON(map[string]any{"objects": 150, "flavour": "sour",
				"pantry": map[string]any{"enabled": false}})
		})
		one.eventuallyReleased(helmOp, releaseNamespace, "kitchen", 2)
		one.expectKitchen(150, "sour")
		for name, want := range map[string]map[string]string{
			"kitchen-pre-install":  {"revision": "1"},
			"kitchen-pre-upgrade":  {"revision": "2"},
			"kitchen-post-upgrade": {"revision": "2"},
			"kitchen-pantry":       nil,
		} {
			one.expectConfigMap(name, want)
		}
	})
	s.step("uninstall", func(s *scenario) {
		one := one.in(s)
		s.remove(helmOp)
		s.eventuallyGone(helmOp)
		one.expectNothing(releaseNamespace, "kitchen-1")
		// Helm never removes CRDs, because the objects of other users would be deleted, too.
		s.must(one.Get(s.Context(), client.ObjectKey{Name: "dishes.kitchen.test"},
			&apiextensionsv1.CustomResourceDefinition{}))
		err := one.Get(s.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "kitchen"}, newDish())
		s.Expect(client.IgnoreNotFound(err)).NotTo(gomega.HaveOccurred())
		s.Expect(err).To(gomega.HaveOccurred(), "the Dish of the chart is kept")
	})
}

func newDish() *unstructured.Unstructured {
	dish := &unstructured.Unstructured{}
	dish.SetAPIVersion("kitchen.test/v1")
	dish.SetKind("Dish")
	return dish
}

// expectKitchen fails unless the cluster has this number of objects of the chart kitchen, all of one flavour.
func (w *workload) expectKitchen(objects int, flavour string) {
	s := w.scenario
	s.Helper()
	dish := newDish()
	s.must(w.Get(s.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "kitchen"}, dish))
	got, _, err := unstructured.NestedString(dish.Object, "spec", "flavour")
	s.must(err)
	s.Expect(got).To(gomega.Equal(flavour))

	configMaps := &corev1.ConfigMapList{}
	s.must(w.List(s.Context(), configMaps, client.InNamespace(releaseNamespace),
		client.MatchingLabels{"kitchen.test/one-of": "many"}))
	s.Expect(configMaps.Items).To(gomega.HaveLen(objects))
	for i := range configMaps.Items {
		s.Expect(configMaps.Items[i].Data).To(gomega.HaveKeyWithValue("flavour", flavour))
	}
}

// expectConfigMap fails unless a ConfigMap has this content. If want is nil, the ConfigMap must not exist.
func (w *workload) expectConfigMap(name string, want map[string]string) {
	w.scenario.Helper()
	data, err := w.hello(w.scenario.Context(), releaseNamespace, name)
	w.scenario.must(err)
	if want == nil {
		w.scenario.Expect(data).To(gomega.BeNil(), "ConfigMap %s", name)
		return
	}
	w.scenario.Expect(data).To(gomega.Equal(want), "ConfigMap %s", name)
}
