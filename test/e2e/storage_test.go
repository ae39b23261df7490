// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	// recordsRepository is the manager's default repository for records.
	recordsRepository = "records/default"

	// noiseFile is the size of one file of addNoise: the largest that a chart may have.
	noiseFile = 5 << 20

	// plantedContent is in each chart of these tests, and must be in no object.
	plantedContent = "planted-in-the-chart"

	// maxGrowth is the largest growth of all objects of the management cluster together, in bytes.
	maxGrowth = 1 << 20

	// maxPointer is the largest size of Helm's Secret for a record that is stored in a registry or in parts.
	maxPointer = 16 << 10
)

// addNoise adds a number of incompressible files to a chart.
func addNoise(files map[string]string, count int) {
	for i := range count {
		noise := make([]byte, noiseFile)
		_, _ = rand.Read(noise)
		files[fmt.Sprintf("files/noise-%d.bin", i)] = string(noise)
	}
}

// TestRecords keeps the records of releases in all supported places.
func TestRecords(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{NoManager: true, NoCharts: true})
	dir, err := os.MkdirTemp(suite.dir, "records-")
	if err != nil {
		t.Fatal(err)
	}
	config, err := env.Registry.DockerConfigJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"config.json": config, "ca.crt": env.Registry.CA()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err = env.StartManager(t.Context(), "--v=6", "--registry-timeout=20s",
		"--registry-ca-file="+filepath.Join(dir, "ca.crt"),
		"--record-storage-url=oci://"+env.Registry.Host()+"/"+recordsRepository,
		"--record-storage-credentials-file="+filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := newScenarioIn(t, env)
	one := s.clusters(testbed.ClusterOptions{Name: "one"})[0]
	s.each(map[string]func(*scenario){
		"in a registry": func(s *scenario) { testRecordsInRegistry(one.in(s)) },
		"by default":    func(s *scenario) { testRecordsByDefault(one.in(s)) },
		"not deleted":   func(s *scenario) { testRecordsKept(one.in(s)) },
		"rolled back":   func(s *scenario) { testRecordsRolledBack(one.in(s)) },
		"changing":      func(s *scenario) { testRecordsChange(one.in(s)) },
		"lost":          func(s *scenario) { testRecordsLost(one.in(s)) },
		"unreadable":    func(s *scenario) { testRecordsUnreadable(one.in(s)) },
	})
}

// pushNoisy pushes versions of a chart with a number of incompressible files.
func (s *scenario) pushNoisy(repository string, files int, versions ...string) {
	s.Helper()
	for _, version := range versions {
		chart := uniqueNoteFiles(version)
		chart["templates/planted.yaml"] = "# " + plantedContent + "\n"
		addNoise(chart, files)
		_, err := s.env.Registry.PushChart(s.Context(), repository, version, registry.ChartFiles(chart))
		s.must(err)
	}
}

// noisy returns a HelmOp for all Clusters with the first version of a chart.
func (s *scenario) noisy(name, repository string, storage *addonsv1.RecordStorage) *addonsv1.HelmOp {
	return s.newHelmOp(name, forAll, s.from(repository, addonsv1.ArtifactReference{Tag: "1.0.0"}),
		func(h *addonsv1.HelmOp) {
			h.Spec.Values, h.Spec.Storage = nil, storage
		})
}

// recordsIn starts a registry for records and returns it with the storage of a HelmOp.
func (s *scenario) recordsIn(name string) (*registry.Registry, *addonsv1.RecordStorage) {
	s.Helper()
	r := s.startRegistry(registry.Options{})
	return r, &addonsv1.RecordStorage{Registry: &addonsv1.RecordRegistry{
		URL:           "oci://" + r.Host() + "/records",
		SecretRef:     s.pullSecret(name, r.Host(), r.Username(), r.Password()),
		CertSecretRef: s.opaque(name+"-ca", map[string][]byte{"ca.crt": r.CA()}),
	}}
}

// useTag changes the version that a HelmOp installs.
func (s *scenario) useTag(helmOp *addonsv1.HelmOp, tag string) {
	s.Helper()
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = tag })
}

// testRecordsInRegistry has a chart of 20 MB whose records are in a registry, which is down for a while. The management
// cluster contains nothing of the chart.
func testRecordsInRegistry(w *workload) {
	s := w.scenario
	r, storage := s.recordsIn("records")
	s.pushNoisy(s.namespace+"/big", 4, "1.0.0", "1.1.0")
	before := s.management()
	helmOp := s.noisy("big", s.namespace+"/big", storage)
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, "big", 1)
	w.eventuallyHello(releaseNamespace, "big", map[string]string{"chartVersion": "1.0.0"})
	s.Expect(s.tags(r, "records")).To(gomega.HaveLen(1))
	w.expectPointers("big", 0)
	s.expectNoContent(before)

	s.must(r.SetFault(registry.Fault{Mode: registry.Down}))
	s.useTag(helmOp, "1.1.0")
	s.child(helmOp, w.name, func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		expectCondition(g, child, addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.RecordStorageFailedReason)
		g.Expect(child.Status.Failures).To(gomega.BeZero())
	})
	w.eventuallyRevisions(releaseNamespace, "big", "1 deployed")
	w.eventuallyHello(releaseNamespace, "big", map[string]string{"chartVersion": "1.0.0"})
	s.must(r.SetFault(registry.Fault{}))
	w.eventuallyReleased(helmOp, releaseNamespace, "big", 2)
	w.eventuallyHello(releaseNamespace, "big", map[string]string{"chartVersion": "1.1.0"})

	// While the registry is down, an uninstallation waits for it. It deletes nothing that could not be found again.
	s.must(r.SetFault(registry.Fault{Mode: registry.Down}))
	s.remove(helmOp)
	s.child(helmOp, w.name, func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		expectCondition(g, child, addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.RecordStorageFailedReason)
	})
	w.eventuallyRevisions(releaseNamespace, "big", "1 superseded", "2 deployed")
	w.eventuallyHello(releaseNamespace, "big", map[string]string{"chartVersion": "1.1.0"})
	s.must(r.SetFault(registry.Fault{}))
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions(releaseNamespace, "big")
	s.Expect(s.tags(r, "records")).To(gomega.BeEmpty(), "records of an uninstalled release")
	s.expectAbsent(r.Password(), plantedContent)
}

// testRecordsByDefault has a HelmOp without storage, whose records go to the manager's default registry, and then to
// the cluster.
func testRecordsByDefault(w *workload) {
	s := w.scenario
	s.pushNoisy(s.namespace+"/small", 0, "1.0.0", "1.1.0")
	helmOp := s.noisy("small", s.namespace+"/small", nil)
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, "small", 1)
	s.Expect(s.tags(s.env.Registry, recordsRepository)).To(gomega.ConsistOf(gomega.HavePrefix("one.small.v1.")))
	beside := s.noisy("beside", s.namespace+"/small", nil)
	s.create(beside)
	w.eventuallyReleased(beside, releaseNamespace, "beside", 1)
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Storage = &addonsv1.RecordStorage{Type: addonsv1.StorageTypeCluster}
	})
	s.eventually(helmOp, ready(1))
	w.eventuallyRevisions(releaseNamespace, "small", "1 deployed")
	s.useTag(helmOp, "1.1.0")
	w.eventuallyReleased(helmOp, releaseNamespace, "small", 2)
	s.Expect(s.tags(s.env.Registry, recordsRepository)).To(gomega.ConsistOf(gomega.HavePrefix("one.small.v1."),
		gomega.HavePrefix("one.beside.v1.")),
		"the former record stays in the registry")
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	s.Expect(s.tags(s.env.Registry, recordsRepository)).To(gomega.ConsistOf(gomega.HavePrefix("one.beside.v1.")))
	s.remove(beside)
	s.eventuallyGone(beside)
	s.Expect(s.tags(s.env.Registry, recordsRepository)).To(gomega.BeEmpty())
}

// testRecordsKept has a registry that does not delete. Upgrades continue, and there is one Event.
func testRecordsKept(w *workload) {
	s := w.scenario
	r, storage := s.recordsIn("kept")
	_, err := r.Fail(registry.Fault{Mode: registry.Status, Code: http.StatusMethodNotAllowed,
		Match: func(r registry.Request) bool {
			return r.Method == http.MethodDelete
		}})
	s.must(err)
	s.pushNoisy(s.namespace+"/kept", 0, "1.0.0", "1.1.0")
	helmOp := s.noisy("kept", s.namespace+"/kept", storage)
	helmOp.Spec.Upgrade = &addonsv1.UpgradeOptions{MaxHistory: new(int32(1))}
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, "kept", 1)
	for revision, tag := range []string{"1.1.0", "1.0.0", "1.1.0"} {
		s.useTag(helmOp, tag)
		w.eventuallyReleased(helmOp, releaseNamespace, "kept", revision+2)
	}
	s.Expect(s.eventuallyEventText("HelmOp", "kept", corev1.EventTypeWarning,
		addonsv1.RecordsLeftEvent)).To(gomega.ContainSubstring("does not delete"))
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	s.Expect(s.tags(r, "records")).To(gomega.HaveLen(4))
	list := &eventsv1.EventList{}
	s.must(s.client.List(s.Context(), list, client.InNamespace(s.namespace)))
	events := 0
	for i := range list.Items {
		if list.Items[i].Reason == addonsv1.RecordsLeftEvent {
			events++
			s.Expect(list.Items[i].Series).To(gomega.BeNil())
		}
	}
	s.Expect(events).To(gomega.Equal(1), "Events about records that are left")
	s.Expect(r.Counts(func(r registry.Request) bool { return r.Method == http.MethodDelete }).Total()).To(gomega.Equal(1),
		"tried deletions")
}

// expectPointers fails unless Helm's Secrets of a release are small, and there is at least this number of parts of
// records.
func (w *workload) expectPointers(name string, parts int) {
	s := w.scenario
	s.Helper()
	secrets := &corev1.SecretList{}
	s.must(w.List(s.Context(), secrets, client.InNamespace(releaseNamespace),
		client.MatchingLabels{"owner": "helm", "name": name}))
	s.Expect(secrets.Items).NotTo(gomega.BeEmpty())
	for i := range secrets.Items {
		s.Expect(len(secrets.Items[i].Data["release"])).To(gomega.BeNumerically("<", maxPointer), secrets.Items[i].Name)
	}
	got := w.parts(name)
	s.Expect(got).To(gomega.BeNumerically(">=", parts))
	s.Expect(got == 0).To(gomega.Equal(parts == 0), "%d parts", got)
}

// parts returns the number of Secrets with parts of the records of a release.
func (w *workload) parts(name string) int {
	s := w.scenario
	s.Helper()
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	s.must(w.List(s.Context(), secrets, client.MatchingLabels{"addons.cluster.x-k8s.io/payload-of": name}))
	return len(secrets.Items)
}

// tags returns the tags of a repository.
func (s *scenario) tags(r *registry.Registry, repository string) []string {
	s.Helper()
	roots := x509.NewCertPool()
	s.Expect(roots.AppendCertsFromPEM(r.CA())).To(gomega.BeTrue())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.Host()+"/v2/"+repository+"/tags/list", nil)
	s.must(err)
	req.SetBasicAuth(r.Username(), r.Password())
	resp, err := (&http.Client{Transport: transport}).Do(req)
	s.must(err)
	defer func() { s.must(resp.Body.Close()) }()
	if resp.StatusCode == http.StatusNotFound {
		return nil
	}
	s.Expect(resp.StatusCode).To(gomega.Equal(http.StatusOK))
	var list struct {
		Tags []string `json:"tags"`
	}
	s.must(json.NewDecoder(resp.Body).Decode(&list))
	return list.Tags
}

// management returns the sizes of all objects of the management cluster, as JSON, by kind and name. It fails if an
// object has the planted content of charts.
func (s *scenario) management() map[string]int {
	s.Helper()
	config := s.env.Management.Server.RESTConfig()
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	s.must(err)
	objects, err := dynamic.NewForConfig(config)
	s.must(err)
	lists, err := discovery.ServerPreferredResources(discoverer)
	s.must(err)
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "get"}}, lists)
	resources, err := discovery.GroupVersionResources(lists)
	s.must(err)
	sizes := map[string]int{}
	for resource := range resources {
		list, err := objects.Resource(resource).List(s.Context(), metav1.ListOptions{})
		s.must(err)
		for i := range list.Items {
			data, err := list.Items[i].MarshalJSON()
			s.must(err)
			key := fmt.Sprintf("%s %s/%s", resource.Resource, list.Items[i].GetNamespace(), list.Items[i].GetName())
			s.Expect(strings.Contains(string(data), plantedContent)).To(gomega.BeFalse(), "%s has content of a chart", key)
			sizes[key] = len(data)
		}
	}
	s.Expect(len(sizes)).To(gomega.BeNumerically(">", 50), "objects of the management cluster")
	return sizes
}

// expectNoContent fails if the objects of the management cluster have grown by more than maxGrowth.
func (s *scenario) expectNoContent(before map[string]int) {
	s.Helper()
	growth, largest, largestKey := 0, 0, ""
	for key, size := range s.management() {
		grown := size - before[key]
		growth += grown
		if grown > largest {
			largest, largestKey = grown, key
		}
	}
	s.Logf("the objects of the management cluster have grown by %d KiB, %s by %d KiB", growth>>10, largestKey, largest>>10)
	s.Expect(growth).To(gomega.BeNumerically("<", maxGrowth))
}
