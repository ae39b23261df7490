// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// helmChartKind is a chart that Flux creates for a HelmRelease that names a HelmRepository.
var helmChartKind = migrate.HelmRepositoryKind.GroupVersion().WithKind("HelmChart")

// fluxVersion is the version of the charts that Flux installs.
const fluxVersion = "1.0.0"

// fluxGreeting is a value that has the form of a template.
const fluxGreeting = "{{ not a template }}"

// createHelmReleases creates HelmReleases for a Cluster, one for each chart.
func (s *scenario) createHelmReleases(cluster string) {
	s.Helper()
	create := func(chart string, spec map[string]any) {
		s.Helper()
		spec["interval"] = fluxInterval.String()
		spec["kubeConfig"] = map[string]any{"secretRef": map[string]any{"name": cluster + "-kubeconfig"}}
		spec["targetNamespace"] = chart + "-system"
		if spec["storageNamespace"] == nil {
			spec["storageNamespace"] = spec["targetNamespace"]
		}
		// No controller runs in the Clusters, so a DaemonSet never becomes ready.
		spec["install"] = map[string]any{"createNamespace": true, "disableWait": true}
		s.create(toolObject(migrate.HelmReleaseKind, s.namespace, cluster+"-"+chart, spec))
	}
	// Without a release name, Flux names the release <target namespace>-<name>. The records are where they are without a
	// storageNamespace.
	create(environment.ChartHello, map[string]any{
		"chartRef":         map[string]any{"kind": "OCIRepository", "name": environment.ChartHello},
		"storageNamespace": s.namespace,
		"values":           map[string]any{"cluster": "flux", "podCIDR": "10.0.0.0/8", "greeting": fluxGreeting},
	})
	create(environment.ChartKitchen, map[string]any{
		"chartRef":    map[string]any{"kind": "OCIRepository", "name": environment.ChartKitchen},
		"releaseName": "kitchen",
		"dependsOn":   []any{map[string]any{"name": cluster + "-slow"}},
		"valuesFrom": []any{
			map[string]any{"kind": "ConfigMap", "name": "kitchen-values"},
			map[string]any{"kind": "Secret", "name": cluster + "-flavour", "valuesKey": "flavour", "targetPath": "flavour"},
		},
	})
	create(environment.ChartSlow, map[string]any{
		"chart": map[string]any{"spec": map[string]any{"chart": environment.ChartSlow, "version": fluxVersion,
			"sourceRef": map[string]any{"kind": "HelmRepository", "name": "charts"}}},
		"releaseName": "slow",
		"values":      map[string]any{"hooks": []any{"post-install"}},
	})
}

// helmReleases returns the HelmReleases of the scenario.
func (s *scenario) helmReleases() []unstructured.Unstructured {
	s.Helper()
	return s.toolObjects(migrate.HelmReleaseKind)
}

// eventuallyHelmReleases waits until so many HelmReleases are reconciled and Ready.
func (s *scenario) eventuallyHelmReleases(n int) {
	s.Helper()
	s.Eventually(func(g gomega.Gomega) {
		releases := s.helmReleases()
		g.Expect(releases).To(gomega.HaveLen(n))
		for _, release := range releases {
			observed, _, _ := unstructured.NestedInt64(release.Object, "status", "observedGeneration")
			g.Expect(observed).To(gomega.Equal(release.GetGeneration()), toJSON(release.Object))
			conditions, _, _ := unstructured.NestedSlice(release.Object, "status", "conditions")
			g.Expect(conditions).To(gomega.ContainElement(gomega.And(gomega.HaveKeyWithValue("type", "Ready"),
				gomega.HaveKeyWithValue("status", "True"))), toJSON(release.Object))
		}
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// moveRecords moves the records of a release in a Cluster to the namespace of the release, as described in
// docs/migration.md.
func (s *scenario) moveRecords(w *workload, helmRelease, release, namespace string) {
	s.Helper()
	object := toolObject(migrate.HelmReleaseKind, s.namespace, helmRelease, nil)
	change := func(value any, field ...string) {
		s.Helper()
		update(s, object, func(o *unstructured.Unstructured) {
			s.must(unstructured.SetNestedField(o.Object, value, field...))
		})
	}
	change(true, "spec", "suspend")
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(s.client.Get(s.Context(), s.key(helmRelease), object)).To(gomega.Succeed())
		observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		g.Expect(observed).To(gomega.Equal(object.GetGeneration()))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	records := &corev1.SecretList{}
	s.must(w.List(s.Context(), records, client.InNamespace(s.namespace),
		client.MatchingLabels{"owner": "helm", "name": release}))
	s.Expect(records.Items).To(gomega.HaveLen(1))
	for i := range records.Items {
		record := &records.Items[i]
		s.must(w.Create(s.Context(), &corev1.Secret{Type: record.Type, Data: record.Data,
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: record.Name, Labels: record.Labels}}))
	}
	change(namespace, "spec", "storageNamespace")
	before := object.DeepCopy()
	s.must(unstructured.SetNestedField(object.Object, namespace, "status", "storageNamespace"))
	s.must(s.client.Status().Patch(s.Context(), object, client.MergeFrom(before)))
	change(false, "spec", "suspend")
	for i := range records.Items {
		s.must(w.Delete(s.Context(), &records.Items[i]))
	}
}

// fluxSource replaces the source-controller of Flux: it serves charts to the helm-controller, and writes their
// addresses into the status of the sources.
type fluxSource struct {
	*httptest.Server
	scenario *scenario
	// archives are the charts by their names. digests are the digests of their artifacts in the registry.
	archives map[string][]byte
	digests  map[string]string
}

// startFluxSource pushes charts to the registry, and serves them until the end of the test.
func (s *scenario) startFluxSource(charts ...string) *fluxSource {
	s.Helper()
	source := &fluxSource{scenario: s, archives: map[string][]byte{}, digests: map[string]string{}}
	for _, chart := range charts {
		archive, err := registry.ChartDir(s.chartFolder(chart))()
		s.must(err)
		pushed, err := s.env.Registry.PushChart(s.Context(), "charts/"+chart, fluxVersion, registry.ChartArchive(archive))
		s.must(err)
		source.archives[chart], source.digests[chart] = archive, pushed.Digest.String()
	}
	source.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		archive, ok := source.archives[filepath.Base(r.URL.Path)]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "chart.tgz", time.Time{}, bytes.NewReader(archive))
	}))
	s.Cleanup(source.Close)
	return source
}

// createRepositories creates an OCIRepository for each chart, and a HelmRepository for all.
func (f *fluxSource) createRepositories() {
	s := f.scenario
	s.Helper()
	url := "oci://" + s.env.Registry.Host() + "/charts"
	access := func(spec map[string]any) map[string]any {
		spec["interval"] = "1m"
		spec["secretRef"] = map[string]any{"name": environment.CredentialsSecret}
		spec["certSecretRef"] = map[string]any{"name": environment.CASecret}
		return spec
	}
	for chart, digest := range f.digests {
		repository := toolObject(migrate.OCIRepositoryKind, s.namespace, chart, access(map[string]any{
			"url": url + "/" + chart, "ref": map[string]any{"tag": fluxVersion},
			"layerSelector": map[string]any{"mediaType": registry.ChartLayerType, "operation": "copy"},
		}))
		s.create(repository)
		f.setArtifact(repository, chart, fluxVersion+"@"+digest)
	}
	s.create(toolObject(migrate.HelmRepositoryKind, s.namespace, "charts",
		access(map[string]any{"url": url, "type": "oci"})))
}

// completeHelmCharts waits until Flux has created so many HelmCharts, and completes them.
func (f *fluxSource) completeHelmCharts(n int) {
	s := f.scenario
	s.Helper()
	s.Eventually(func() []unstructured.Unstructured { return s.toolObjects(helmChartKind) }).WithContext(
		s.Context()).Should(gomega.HaveLen(n))
	for _, chart := range s.toolObjects(helmChartKind) {
		name, _, _ := unstructured.NestedString(chart.Object, "spec", "chart")
		f.setArtifact(&chart, name, fluxVersion)
	}
}

// setArtifact writes into the status of a source that a revision of a chart is available.
func (f *fluxSource) setArtifact(source *unstructured.Unstructured, chart, revision string) {
	f.scenario.Helper()
	now, before := metav1.Now().UTC().Format(time.RFC3339), source.DeepCopy()
	source.Object["status"] = map[string]any{
		"observedGeneration": source.GetGeneration(),
		"artifact": map[string]any{
			"url": f.URL + "/" + chart, "path": chart, "revision": revision, "lastUpdateTime": now,
			"digest": fmt.Sprintf("sha256:%x", sha256.Sum256(f.archives[chart])),
		},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Succeeded",
			"message": "stored " + revision, "lastTransitionTime": now, "observedGeneration": source.GetGeneration()}},
	}
	f.scenario.must(f.scenario.client.Status().Patch(f.scenario.Context(), source, client.MergeFrom(before)))
}
