// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// recordsInBoth starts two registries for records. It returns the storage of a HelmOp for the first one, with the
// credentials for both, and the repository of the second.
func (s *scenario) recordsInBoth(name string) (first, second *registry.Registry, storage *addonsv1.RecordStorage,
	secondURL string) {
	s.Helper()
	first, second = s.startRegistry(registry.Options{}), s.startRegistry(registry.Options{})
	auths := map[string]any{}
	for _, r := range []*registry.Registry{first, second} {
		config, err := r.DockerConfigJSON()
		s.must(err)
		var read struct {
			Auths map[string]any `json:"auths"`
		}
		s.must(json.Unmarshal(config, &read))
		maps.Copy(auths, read.Auths)
	}
	config, err := json.Marshal(map[string]any{"auths": auths})
	s.must(err)
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	})
	return first, second, &addonsv1.RecordStorage{Registry: &addonsv1.RecordRegistry{
		URL: "oci://" + first.Host() + "/records", SecretRef: &addonsv1.SecretReference{Name: name},
		CertSecretRef: s.opaque(name+"-ca", map[string][]byte{"ca.crt": bytes.Join([][]byte{first.CA(), second.CA()}, nil)}),
	}}, "oci://" + second.Host() + "/records"
}

// testRecordsChange moves the records of a release from Secrets to parts, to a registry and to another one. An upgrade
// fails there and is rolled back to a record in the first registry. Then the records return to Secrets, until both
// registries are empty.
func testRecordsChange(w *workload) {
	s := w.scenario
	first, second, storage, secondURL := s.recordsInBoth("change")
	repository := s.namespace + "/change"
	s.pushNoisy(repository, 0, "1.0.0", "1.2.0", "1.3.0", "1.4.0")
	s.pushNoisy(repository, 1, "1.1.0")
	s.pushRefused(repository, 0, "1.9.0")
	helmOp := s.noisy("change", repository, &addonsv1.RecordStorage{Type: addonsv1.StorageTypeCluster})
	rollingBack(0)(helmOp)
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, "change", 1)
	set := func(tag string, storage *addonsv1.RecordStorage) {
		s.Helper()
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag, h.Spec.Storage = tag, storage })
	}
	kept := func(inFirst, inSecond int) {
		s.Helper()
		s.Expect([]int{len(s.tags(first, "records")),
			len(s.tags(second, "records"))}).To(gomega.Equal([]int{inFirst, inSecond}))
	}
	set("1.1.0", &addonsv1.RecordStorage{Type: addonsv1.StorageTypeCluster})
	w.eventuallyReleased(helmOp, releaseNamespace, "change", 2)
	s.Expect(w.parts("change")).To(gomega.BeNumerically(">=", 3))
	set("1.2.0", storage)
	w.eventuallyReleased(helmOp, releaseNamespace, "change", 3)
	kept(1, 0)

	moved := storage.DeepCopy()
	moved.Registry.URL, moved.FormerURLs = secondURL, []string{storage.Registry.URL}
	set("1.9.0", moved)
	w.eventuallyRevisions(releaseNamespace, "change", "1 superseded", "2 superseded", "3 superseded", "4 failed",
		"5 deployed")
	w.eventuallyHello(releaseNamespace, "change", map[string]string{"chartVersion": "1.2.0"})
	kept(1, 2)

	back := moved.DeepCopy()
	back.Type = addonsv1.StorageTypeCluster
	set("1.3.0", back)
	w.eventuallyReleased(helmOp, releaseNamespace, "change", 6)
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Upgrade.MaxHistory, h.Spec.Source.Ref.Tag = new(int32(1)), "1.4.0"
	})
	w.eventuallyReleased(helmOp, releaseNamespace, "change", 7)
	// Helm never deletes the last revision that worked before the new one.
	w.eventuallyRevisions(releaseNamespace, "change", "6 superseded", "7 deployed")
	kept(0, 0)
	s.Expect(w.parts("change")).To(gomega.BeZero())
	set("1.0.0", nil)
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions(releaseNamespace, "change")
	kept(0, 0)
}

// pushRefused pushes a chart with a number of incompressible files, and with an object that every API server rejects.
func (s *scenario) pushRefused(repository string, files int, version string) {
	s.Helper()
	chart := uniqueNoteFiles(version)
	chart["templates/broken.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"no name\"}\n"
	addNoise(chart, files)
	_, err := s.env.Registry.PushChart(s.Context(), repository, version, registry.ChartFiles(chart))
	s.must(err)
}

// testRecordsRolledBack checks two rollbacks with large records in a registry: one by a change of the HelmOp, one after
// a failed upgrade. Later upgrades work, and the uninstallation leaves no records.
func testRecordsRolledBack(w *workload) {
	s := w.scenario
	r, storage := s.recordsIn("back")
	repository := s.namespace + "/back"
	s.pushNoisy(repository, 1, "1.0.0", "1.1.0")
	s.pushRefused(repository, 1, "1.9.0")
	helmOp := s.noisy("back", repository, storage)
	rollingBack(0)(helmOp)
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, "back", 1)
	for i, tag := range []string{"1.1.0", "1.0.0"} {
		s.useTag(helmOp, tag)
		w.eventuallyReleased(helmOp, releaseNamespace, "back", i+2)
		w.eventuallyHello(releaseNamespace, "back", map[string]string{"chartVersion": tag})
	}
	s.useTag(helmOp, "1.9.0")
	w.eventuallyRevisions(releaseNamespace, "back", "1 superseded", "2 superseded", "3 superseded", "4 failed",
		"5 deployed")
	w.eventuallyHello(releaseNamespace, "back", map[string]string{"chartVersion": "1.0.0"})
	s.Expect(s.tags(r, "records")).To(gomega.HaveLen(5))
	w.expectPointers("back", 0)
	s.useTag(helmOp, "1.1.0")
	w.eventuallyReleased(helmOp, releaseNamespace, "back", 6)
	w.eventuallyHello(releaseNamespace, "back", map[string]string{"chartVersion": "1.1.0"})
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions(releaseNamespace, "back")
	s.Expect(s.tags(r, "records")).To(gomega.BeEmpty(), "records of an uninstalled release")
}

// testRecordsLost follows the steps in docs/storage.md for a lost registry, and for a registry that has lost its
// records.
func testRecordsLost(w *workload) {
	s := w.scenario
	r, storage := s.recordsIn("lost")
	s.pushNoisy(s.namespace+"/lost", 0, "1.0.0", "1.1.0", "1.2.0")
	keeping, replaced := s.noisy("keeping", s.namespace+"/lost", storage),
		s.noisy("replaced", s.namespace+"/lost", storage)
	for _, helmOp := range []*addonsv1.HelmOp{keeping, replaced} {
		s.create(helmOp)
		w.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 1)
	}
	end, err := r.Fail(registry.Fault{Mode: registry.Status, Code: http.StatusNotFound,
		Match: registry.In("records", registry.BlobGet)})
	s.must(err)
	s.useTag(replaced, "1.1.0")
	s.child(replaced, w.name, childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse,
		addonsv1.RecordDamagedReason))
	end()
	s.must(r.SetFault(registry.Fault{Mode: registry.Down}))
	s.useTag(keeping, "1.1.0")
	s.child(keeping, w.name, childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse,
		addonsv1.RecordStorageFailedReason))

	orphan := func(helmOp *addonsv1.HelmOp) {
		s.Helper()
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan })
		s.remove(helmOp)
		s.eventuallyGone(helmOp)
		w.eventuallyHello(releaseNamespace, helmOp.Name, map[string]string{"chartVersion": "1.0.0"})
		w.eventuallyRevisions(releaseNamespace, helmOp.Name, "1 deployed")
	}
	orphan(keeping)
	orphan(replaced)
	for _, name := range []string{"keeping", "replaced"} {
		s.must(w.DeleteAllOf(s.Context(), &corev1.Secret{}, client.InNamespace(releaseNamespace),
			client.MatchingLabels{"owner": "helm", "name": name}))
		adopter := s.noisy(name, s.namespace+"/lost", &addonsv1.RecordStorage{Type: addonsv1.StorageTypeCluster})
		adopter.Spec.Source.Ref.Tag = "1.2.0"
		s.create(adopter)
		w.eventuallyReleased(adopter, releaseNamespace, name, 1)
		w.eventuallyHello(releaseNamespace, name, map[string]string{"chartVersion": "1.2.0"})
		s.remove(adopter)
		s.eventuallyGone(adopter)
		data, err := w.hello(s.Context(), releaseNamespace, name)
		s.must(err)
		s.Expect(data).To(gomega.BeNil(), "the HelmOp uninstalls the adopted release")
	}
}

// testRecordsUnreadable has an unreadable record. The release stays, and its condition names the cause, until the steps
// of docs/storage.md are taken.
func testRecordsUnreadable(w *workload) {
	s := w.scenario
	s.pushNoisy(s.namespace+"/unreadable", 0, "1.0.0", "1.1.0")
	helmOp := s.noisy("unreadable", s.namespace+"/unreadable", &addonsv1.RecordStorage{Type: addonsv1.StorageTypeCluster})
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, "unreadable", 1)
	s.useTag(helmOp, "1.1.0")
	w.eventuallyReleased(helmOp, releaseNamespace, "unreadable", 2)
	record := &corev1.Secret{}
	s.must(w.Get(s.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "sh.helm.release.v1.unreadable.v2"},
		record))
	record.Data["release"] = []byte("garbage")
	s.must(w.Update(s.Context(), record))

	s.remove(helmOp)
	s.child(helmOp, w.name, childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse,
		addonsv1.RecordDamagedReason))
	w.eventuallyHello(releaseNamespace, "unreadable", map[string]string{"chartVersion": "1.1.0"})
	w.eventuallyRevisions(releaseNamespace, "unreadable", "1 superseded", "2 deployed")
	s.must(w.Delete(s.Context(), record))
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions(releaseNamespace, "unreadable")
	data, err := w.hello(s.Context(), releaseNamespace, "unreadable")
	s.must(err)
	s.Expect(data).To(gomega.BeNil(), "the previous revision has the record, too")
}
