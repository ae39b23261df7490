// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// siteLabel and gpuLabel on a Cluster select overrides of variety.
const (
	siteLabel = "site"
	gpuLabel  = "gpu"
)

// variety is a HelmOp for a fleet in the middle of an upgrade of Kubernetes, with overrides.
type variety struct {
	*scenario
	registry *registry.Registry
	helmOp   *addonsv1.HelmOp
	clusters map[string]*workload
}

// TestOverrides has one HelmOp that installs another chart, other values and other options in some of its Clusters.
func TestOverrides(t *testing.T) {
	s := newScenario(t)
	v := &variety{scenario: s, registry: s.startRegistry(registry.Options{}), clusters: map[string]*workload{}}
	for _, version := range []string{"1.0.0", "1.1.0", "2.0.0"} {
		v.push(version)
	}
	// The Clusters share an API server; each has its own namespace there.
	host := s.clusters(testbed.ClusterOptions{Name: "base", Version: "v1.34.2"})[0]
	v.clusters[host.name] = host
	for _, options := range []testbed.ClusterOptions{
		{Name: "next", Version: "v1.35.0-rc.1+vendor.2"},
		{Name: "edge", Version: "v1.35.1", Labels: map[string]string{siteLabel: "edge"}},
		{Name: "gpu", Version: "v1.33.0", Labels: map[string]string{siteLabel: "edge", gpuLabel: "true"}},
	} {
		options.Host = host.name
		s.createCluster(options)
		v.clusters[options.Name] = &workload{Client: host.Client, scenario: s, name: options.Name, server: host.server}
	}
	v.helmOp = v.newHelmOp()
	s.create(v.helmOp)

	for _, step := range []struct {
		name string
		do   func(*variety)
	}{
		{"each Cluster gets its chart and values", (*variety).install},
		{"an upgrade of Kubernetes", (*variety).upgrade},
		{"a relabelled Cluster", (*variety).relabel},
		{"a request to resolve now", (*variety).resolveNow},
		{"a reference that does not exist", (*variety).missReference},
		{"an invalid range", (*variety).mistakeRange},
	} {
		s.step(step.name, func(s *scenario) {
			in := *v
			in.scenario, in.clusters = s, map[string]*workload{}
			for name, w := range v.clusters {
				in.clusters[name] = w.in(s)
			}
			step.do(&in)
		})
	}
}

func (v *variety) newHelmOp() *addonsv1.HelmOp {
	helmOp := v.noteFrom(v.registry, "varied", chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Source.Interval = never
	helmOp.Spec.Release.Namespace = "varied-{{ .Cluster.metadata.name }}"
	helmOp.Spec.Values = rawJSON(greeting("all"))
	helmOp.Spec.RefsByKubernetesVersion = []addonsv1.KubernetesVersionReference{
		{KubernetesVersion: ">=1.35", Ref: addonsv1.ArtifactReference{Tag: "2.0.0"}},
	}
	helmOp.Spec.Overrides = []addonsv1.Override{
		{
			Name: "edge", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{siteLabel: "edge"}},
			Ref: &addonsv1.ArtifactReference{Tag: "1.1.0"}, Values: rawJSON(greeting("near {{ .Cluster.metadata.name }}")),
			ReleaseOptions: addonsv1.ReleaseOptions{Install: &addonsv1.InstallOptions{
				NamespaceMetadata: &addonsv1.ObjectMetadata{Labels: map[string]string{siteLabel: "edge"}},
			}},
		},
		{
			Name: "gpu", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{gpuLabel: "true"}},
			Values: rawJSON(greeting("gpu")),
		},
	}
	return helmOp
}

// push pushes a chart that contains its version and a greeting.
func (v *variety) push(version string) {
	v.Helper()
	files := uniqueNoteFiles(version)
	files["templates/note.yaml"] += "  greeting: {{ .Values.greeting | quote }}\n"
	_, err := v.registry.PushChart(v.Context(), chartRepository, version, registry.ChartFiles(files))
	v.must(err)
}

// becomes waits until a Cluster has a revision of its release, with a version of the chart and a greeting.
func (v *variety) becomes(cluster string, revision int, version, greeting string) {
	v.Helper()
	w, namespace := v.clusters[cluster], "varied-"+cluster
	child := w.eventuallyReleased(v.helmOp, namespace, "varied", revision)
	w.eventuallyHello(namespace, "varied", map[string]string{"chartVersion": version, "greeting": greeting})
	v.Expect(child.Status.Release.Version).To(gomega.Equal(version))
}

// tagLookups returns how often the registry resolved each tag.
func (v *variety) tagLookups() map[string]int {
	lookups := map[string]int{}
	for _, request := range v.registry.Requests(registry.In(chartRepository)) {
		if request.Kind == registry.ManifestHead && request.Code != 401 {
			lookups[request.Reference]++
		}
	}
	return lookups
}

func (v *variety) install() {
	v.becomes("base", 1, "1.0.0", "all")
	v.becomes("next", 1, "2.0.0", "all")
	v.becomes("edge", 1, "1.1.0", "near edge")
	v.becomes("gpu", 1, "1.1.0", "gpu")
	current := v.eventually(v.helmOp, ready(4), resolved)
	v.Expect(current.Status.Artifact.Tag).To(gomega.Equal("1.0.0"))
	var tags []string
	for _, artifact := range current.Status.Artifacts {
		tags = append(tags, artifact.Reference.Tag)
	}
	v.Expect(tags).To(gomega.Equal([]string{"1.1.0", "2.0.0"}))
	for cluster, site := range map[string]string{"base": "", "next": "", "edge": "edge", "gpu": "edge"} {
		namespace := &corev1.Namespace{}
		v.must(v.clusters[cluster].Get(v.Context(), client.ObjectKey{Name: "varied-" + cluster}, namespace))
		v.Expect(namespace.Labels[siteLabel]).To(gomega.Equal(site), "the namespace in %s", cluster)
	}
	v.Expect(v.tagLookups()).To(gomega.Equal(map[string]int{"1.0.0": 1, "1.1.0": 1, "2.0.0": 1}),
		"lookups of the tags for 4 Clusters")
	counts := v.registry.Counts(registry.In(chartRepository))
	v.Expect([]int{counts.ManifestGets, counts.BlobGets}).To(gomega.Equal([]int{3, 3}), "pulls of manifests and charts")
}

func (v *variety) upgrade() {
	before := v.registry.Counts(registry.In(chartRepository))
	update(v.scenario, &controlplanev1.LocalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace,
		Name: "base"}},
		func(c *controlplanev1.LocalControlPlane) { c.Spec.Version = "v1.35.2" })
	v.becomes("base", 2, "2.0.0", "all")
	v.eventually(v.helmOp, ready(4))
	v.Expect(v.registry.Counts(registry.In(chartRepository))).To(gomega.Equal(before), "requests to the registry")
}

func (v *variety) relabel() {
	v.label("next", siteLabel, "edge")
	v.becomes("next", 2, "1.1.0", "near next")
	v.label("next", siteLabel, "")
	v.becomes("next", 3, "2.0.0", "all")
	v.eventually(v.helmOp, ready(4))
	v.becomes("base", 2, "2.0.0", "all")
	v.becomes("edge", 1, "1.1.0", "near edge")
	v.becomes("gpu", 1, "1.1.0", "gpu")
}

func (v *variety) resolveNow() {
	update(v.scenario, v.helmOp, func(h *addonsv1.HelmOp) {
		h.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: "now"}
	})
	v.eventually(v.helmOp, resolved, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.LastResolveRequest).To(gomega.Equal("now"))
	})
	v.Expect(v.tagLookups()).To(gomega.Equal(map[string]int{"1.0.0": 2, "1.1.0": 2, "2.0.0": 2}), "lookups of the tags")
}

// missReference has two Clusters whose reference does not exist. Two other Clusters get a change that is made at the
// same time.
func (v *variety) missReference() {
	update(v.scenario, v.helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.RefsByKubernetesVersion = append([]addonsv1.KubernetesVersionReference{
			{KubernetesVersion: "~1.35", Ref: addonsv1.ArtifactReference{Tag: "3.0.0"}},
		}, h.Spec.RefsByKubernetesVersion...)
		h.Spec.Overrides[1].Values = rawJSON(greeting("gpu again"))
	})
	v.becomes("gpu", 2, "1.1.0", "gpu again")
	v.eventually(v.helmOp, unresolved(addonsv1.ArtifactNotFoundReason, "spec.refsByKubernetesVersion[0].ref"),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			var failed []string
			for _, failure := range h.Status.Failures {
				failed = append(failed, failure.Cluster+" "+failure.Reason)
			}
			g.Expect(failed).To(gomega.Equal([]string{"base " + addonsv1.ArtifactNotFoundReason,
				"next " + addonsv1.ArtifactNotFoundReason}))
		})
	v.becomes("base", 2, "2.0.0", "all")
	v.push("3.0.0")
	v.becomes("base", 3, "3.0.0", "all")
	v.becomes("next", 4, "3.0.0", "all")
	v.becomes("edge", 1, "1.1.0", "near edge")
	v.eventually(v.helmOp, ready(4), resolved)
}

func (v *variety) mistakeRange() {
	set := func(kubernetes string, values *string) {
		update(v.scenario, v.helmOp, func(h *addonsv1.HelmOp) {
			h.Spec.RefsByKubernetesVersion[0].KubernetesVersion = kubernetes
			if values != nil {
				h.Spec.Values = rawJSON(greeting(*values))
			}
		})
	}
	set("new ones", ptr.To("changed"))
	v.eventually(v.helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.InvalidOverrideReason),
		message(addonsv1.ReadyCondition, "spec.refsByKubernetesVersion[0].kubernetesVersion"))
	v.clusters["base"].expectUntouched()
	set("~1.35", nil)
	v.becomes("base", 4, "3.0.0", "changed")
	v.becomes("next", 5, "3.0.0", "changed")
	v.eventually(v.helmOp, ready(4))
}
