// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

func TestVariantsOf(t *testing.T) {
	t.Parallel()
	edge := addonsv1.ReleaseOptions{
		Install: &addonsv1.InstallOptions{
			CreateNamespace:   ptr.To(false),
			Timeout:           &metav1.Duration{Duration: time.Minute},
			NamespaceMetadata: &addonsv1.ObjectMetadata{Labels: map[string]string{"a": "1", "b": "2", "c": "2"}},
		},
		Health:                        controllertest.SpecWithOverrides().Health,
		ImpersonateServiceAccountName: "edge",
	}
	gpu := controllertest.SpecWithOverrides().ReleaseOptions
	gpu.Health, gpu.ImpersonateServiceAccountName = controllertest.SpecWithOverrides().Overrides[2].Health, "gpu"
	both := edge
	both.Health, both.ImpersonateServiceAccountName = gpu.Health, "gpu"
	for name, tc := range map[string]struct {
		labels  map[string]string
		version string
		want    variant
	}{
		"nothing special":         {nil, "v1.32.1", variant{Ref: controllertest.Tagged("1.0.0"), isSource: true}},
		"version not known":       {nil, "", variant{Ref: controllertest.Tagged("1.0.0"), isSource: true}},
		"no version":              {nil, "latest", variant{Ref: controllertest.Tagged("1.0.0"), isSource: true}},
		"in a range":              {nil, "v1.34.2", variant{Ref: controllertest.Tagged("1.5.0")}},
		"the first of two ranges": {nil, "1.35.0", variant{Ref: controllertest.Tagged("2.0.0")}},
		"pre-release":             {nil, "v1.35.0-rc.1", variant{Ref: controllertest.Tagged("2.0.0")}},
		"of a vendor":             {nil, "v1.34.2+rke2r1", variant{Ref: controllertest.Tagged("1.5.0")}},
		"pre-release of a vendor": {nil, "v1.33.5-gke.1080+x-y", variant{Ref: controllertest.Tagged("1.5.0")}},
		"without a patch":         {nil, "v1.31", variant{Ref: controllertest.Tagged("1.0.0-edge")}},
		"an override over a range": {map[string]string{"site": "edge"}, "v1.35.0",
			variant{Ref: controllertest.Tagged("1.0.0-edge"), overrides: []int{0}, Options: edge}},
		"a later one wins": {
			map[string]string{"site": "edge", "gpu": "true"}, "v1.35.0",
			variant{Ref: controllertest.Tagged("1.0.0-gpu"), overrides: []int{0, 1, 2}, Options: both},
		},
		"another two": {map[string]string{"gpu": "true"}, "",
			variant{Ref: controllertest.Tagged("1.0.0-gpu"), overrides: []int{1, 2}, Options: gpu}},
		"back to the source": {
			map[string]string{"same": "true"}, "v1.35.0",
			variant{Ref: controllertest.Tagged("1.0.0"), isSource: true, overrides: []int{3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := controllertest.SpecWithOverrides()
			v, err := NewVariants(spec)
			if err != nil {
				t.Fatal(err)
			}
			if reflect.DeepEqual(tc.want.Options, addonsv1.ReleaseOptions{}) {
				tc.want.Options = spec.ReleaseOptions
			}
			for range 2 {
				got, err := v.Of(tc.labels, tc.version)
				if err != nil || !reflect.DeepEqual(got, tc.want) {
					t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
				}
			}
			if !reflect.DeepEqual(spec, controllertest.SpecWithOverrides()) {
				t.Error("the spec was changed")
			}
		})
	}
}

func TestVariantsReferences(t *testing.T) {
	t.Parallel()
	v, err := NewVariants(controllertest.SpecWithOverrides())
	if err != nil {
		t.Fatal(err)
	}
	want := []ReferredArtifact{
		{controllertest.Tagged("1.0.0-edge"), "spec.overrides[0] (edge).ref"},
		{controllertest.Tagged("1.0.0-gpu"), "spec.overrides[2] (gpu-edge).ref"},
		{controllertest.Tagged("2.0.0"), "spec.refsByKubernetesVersion[0].ref"},
		{controllertest.Tagged("1.5.0"), "spec.refsByKubernetesVersion[1].ref"},
	}
	if got := v.References(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestVariantsDigest(t *testing.T) {
	t.Parallel()
	known := map[string]string{}
	for name, change := range map[string]func(*addonsv1.HelmOpSpec){
		"as it is":         func(*addonsv1.HelmOpSpec) {},
		"a range":          func(s *addonsv1.HelmOpSpec) { s.RefsByKubernetesVersion[0].KubernetesVersion = ">=1.36" },
		"an option":        func(s *addonsv1.HelmOpSpec) { s.Overrides[0].Install.CreateNamespace = nil },
		"a selector":       func(s *addonsv1.HelmOpSpec) { s.Overrides[0].ClusterSelector = metav1.LabelSelector{} },
		"nothing of it":    func(s *addonsv1.HelmOpSpec) { s.Overrides, s.RefsByKubernetesVersion = nil, nil },
		"without versions": func(s *addonsv1.HelmOpSpec) { s.RefsByKubernetesVersion = nil },
	} {
		spec := controllertest.SpecWithOverrides()
		change(spec)
		v, err := NewVariants(spec)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := v.digest()
		if err != nil || known[digest] != "" || (digest == "") != (name == "nothing of it") {
			t.Errorf("%s: digest %q, %v; the same as of %q", name, digest, err, known[digest])
		}
		known[digest] = name
	}
}

// Only upgrades of Clusters in the HelmOp's own namespace are held. So only in these Clusters, a release can be made
// ready before an upgrade.
func TestUpcomingVersionAppliesToOwnNamespaceOnly(t *testing.T) {
	t.Parallel()
	v, err := NewVariants(controllertest.SpecWithOverrides())
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{Variants: v, Ahead: true, namespace: "n"}
	controlPlane := map[string]any{"status": map[string]any{"version": "v1.34.0"}}
	objects := &clusterview.Objects{Data: templating.Objects{ControlPlane: controlPlane}}
	for namespace, want := range map[string]string{"n": "v1.35.0", "m": "v1.34.0"} {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}}
		cluster.Spec.Topology.Version = "v1.35.0"
		if chosen, err := p.choose(objects, cluster, "", false); err != nil || chosen.Version != want {
			t.Errorf("in namespace %s %q counts, %v, want %q", namespace, chosen.Version, err, want)
		}
	}
}

// TestOutcomeWaitsForPlan renders a release for an upgrade over two minor versions. Cluster API has processed the
// request, and no plan is published.
func TestOutcomeWaitsForPlan(t *testing.T) {
	t.Parallel()
	for publishesPlans, want := range map[bool]string{true: "v1.35.0", false: "v1.37.0"} {
		objects := controllertest.UpgradeClient(t, "n", "v1.35.0", publishesPlans)
		renderer := New(references.NewReader(objects, objects), clusterview.NewReader(objects, objects))
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{})
		helmOp.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		p, err := renderer.Compile(t.Context(), helmOp)
		if err != nil {
			t.Fatal(err)
		}
		u, cluster := clusterOf("n", "one", nil)
		controllertest.RequestUpgrade(cluster, "v1.37.0")
		rendered, chosen, _ := renderer.Outcome(t.Context(), p, u, cluster, "v1.35.0")
		if rendered.Err != nil || chosen.Version != want {
			t.Errorf("published %t: %q, %v, want %q", publishesPlans, chosen.Version, rendered.Err, want)
		}
	}
}

// TestOutcomeOfOtherAPIVersion checks that a release is rendered again if the provider of the control plane names
// another API version for the contract of Cluster API. The object then has other fields, but the same resource version.
func TestOutcomeOfOtherAPIVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
			Name: "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", Labels: map[string]string{
				clusterv1.GroupVersion.String(): "v1beta1"}}}
		scheme := runtime.NewScheme()
		if err := apiextensionsv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(definition)
		for version, text := range map[string]string{"v1beta1": "old", "v1beta2": "new"} {
			builder.WithObjects(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "controlplane.cluster.x-k8s.io/" + version, "kind": "KubeadmControlPlane",
				"metadata": map[string]any{"namespace": "n", "name": "control-plane", "uid": "1"},
				"spec":     map[string]any{"text": text}}})
		}
		objects := builder.Build()
		renderer := New(references.NewReader(objects, objects), clusterview.NewReader(objects, objects))
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{})
		helmOp.Spec.Values = &apiextensionsv1.JSON{Raw: []byte(`{"a": "{{ .ControlPlane.spec.text }}"}`)}
		p, err := renderer.Compile(t.Context(), helmOp)
		if err != nil {
			t.Fatal(err)
		}
		u, cluster := clusterOf("n", "one", nil)
		cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "control-plane"}
		before, _, _ := renderer.Outcome(t.Context(), p, u, cluster, "")
		definition.Labels[clusterv1.GroupVersion.String()] = "v1beta1_v1beta2"
		if err := objects.Update(t.Context(), definition); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // The reader caches the API version for a shorter time.
		after, _, _ := renderer.Outcome(t.Context(), p, u, cluster, "")
		if before.Err != nil || after.Err != nil || before.ValuesDigest == after.ValuesDigest {
			t.Errorf("rendered %+v and then %+v", before, after)
		}
		result, _, err := renderer.Values(t.Context(), helmOp, u, cluster)
		if err != nil || result.Digest != after.ValuesDigest {
			t.Errorf("the values have the digest %s, %v, want %s", result.Digest, err, after.ValuesDigest)
		}
	})
}

// A fleet shares what its Clusters have in common: a Cluster costs next to nothing.
func BenchmarkVariantsOf(b *testing.B) {
	for name, spec := range map[string]*addonsv1.HelmOpSpec{"plain": {Source: controllertest.SpecWithOverrides().Source},
		"varied": controllertest.SpecWithOverrides()} {
		b.Run(name, func(b *testing.B) {
			v, err := NewVariants(spec)
			if err != nil {
				b.Fatal(err)
			}
			clusterLabels := map[string]string{"site": "edge", "gpu": "true", "region": "north"}
			for b.Loop() {
				if _, err := v.Of(clusterLabels, "v1.34.2"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
