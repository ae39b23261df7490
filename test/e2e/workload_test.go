// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sort"
	"strconv"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// workload is a workload cluster, accessed with its administrator's rights.
type workload struct {
	client.Client

	scenario *scenario
	name     string
	server   *apiserver.Server
}

// workload waits until a Cluster of the scenario has a control plane, and returns the access to it.
func (s *scenario) workload(name string) *workload {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(s.env.Management.WaitClusterAvailable(ctx, s.key(name)))
	return s.running(name)
}

// running returns the access to a Cluster whose API server runs, initialized or not.
func (s *scenario) running(name string) *workload {
	s.Helper()
	w := &workload{scenario: s, name: name, server: s.env.Management.Provider.Server(s.key(name))}
	if w.server == nil {
		s.Fatalf("no server of Cluster %s runs", name)
	}
	var err error
	w.Client, err = client.New(w.server.RESTConfig(), client.Options{Scheme: s.client.Scheme()})
	s.must(err)
	return w
}

// in returns the same cluster for a part of its scenario.
func (w *workload) in(s *scenario) *workload {
	return &workload{Client: w.Client, scenario: s, name: w.name, server: w.server}
}

// revision is a revision of a Helm release, read from its Secret.
type revision struct {
	Number int
	Status string
	// Labels are the labels of the Secret, including Helm's own.
	Labels map[string]string
	// ResourceVersion changes with every write.
	ResourceVersion string
}

// revisions returns the revisions of a release, the oldest first.
func (w *workload) revisions(ctx context.Context, namespace, name string) ([]revision, error) {
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := w.List(ctx, secrets, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm", "name": name})
	if err != nil {
		return nil, err
	}
	revisions := make([]revision, 0, len(secrets.Items))
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		number, err := strconv.Atoi(secret.Labels["version"])
		if err != nil {
			return nil, fmt.Errorf("label version of Secret %s: %w", secret.Name, err)
		}
		revisions = append(revisions, revision{
			Number: number, Status: secret.Labels["status"], Labels: secret.Labels, ResourceVersion: secret.ResourceVersion,
		})
	}
	sort.Slice(revisions, func(i, j int) bool { return revisions[i].Number < revisions[j].Number })
	return revisions, nil
}

// summaries returns revisions as "<number> <status>".
func summaries(revisions []revision) []string {
	texts := make([]string, 0, len(revisions))
	for _, r := range revisions {
		texts = append(texts, fmt.Sprintf("%d %s", r.Number, r.Status))
	}
	return texts
}

// eventuallyRevisions waits until a release has exactly these revisions, each as "<number> <status>".
func (w *workload) eventuallyRevisions(namespace, name string, want ...string) {
	w.scenario.Helper()
	w.scenario.Eventually(func(g gomega.Gomega, ctx context.Context) {
		revisions, err := w.revisions(ctx, namespace, name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		if len(want) == 0 {
			g.Expect(summaries(revisions)).To(gomega.BeEmpty(), "revisions of %s/%s in %s", namespace, name, w.name)
			return
		}
		g.Expect(summaries(revisions)).To(gomega.Equal(want), "revisions of %s/%s in %s", namespace, name, w.name)
	}).WithContext(w.scenario.Context()).Should(gomega.Succeed())
}

// expectUntouched fails if Helm's storage of the cluster changes.
func (w *workload) expectUntouched() {
	w.scenario.Helper()
	before, err := w.storage(w.scenario.Context())
	w.scenario.must(err)
	w.scenario.Consistently(func(g gomega.Gomega, ctx context.Context) {
		now, err := w.storage(ctx)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(now).To(gomega.Equal(before), "Helm's storage in %s", w.name)
	}).WithContext(w.scenario.Context()).Should(gomega.Succeed())
}

// storage returns the resource versions of all of Helm's Secrets of the cluster by their names.
func (w *workload) storage(ctx context.Context) (map[string]string, error) {
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := w.List(ctx, secrets, client.MatchingLabels{"owner": "helm"}); err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for i := range secrets.Items {
		versions[secrets.Items[i].Namespace+"/"+secrets.Items[i].Name] = secrets.Items[i].ResourceVersion
	}
	return versions, nil
}

// contents returns Helm's storage, by namespace and name, without HelmOp's own labels.
func (w *workload) contents(ctx context.Context) (map[string]string, error) {
	secrets := &corev1.SecretList{}
	if err := w.List(ctx, secrets, client.MatchingLabels{"owner": "helm"}); err != nil {
		return nil, err
	}
	contents := map[string]string{}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		contents[secret.Namespace+"/"+secret.Name] = fmt.Sprintf("%s %s %x", secret.UID, secret.Labels["status"],
			sha256.Sum256(secret.Data["release"]))
	}
	return contents, nil
}

// hello returns the data of a release of the chart hello, or nil if it does not exist.
func (w *workload) hello(ctx context.Context, namespace, name string) (map[string]string, error) {
	configMap := &corev1.ConfigMap{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, configMap); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return configMap.Data, nil
}

// eventuallyHello waits until a release of the chart hello has these entries, among others.
func (w *workload) eventuallyHello(namespace, name string, want map[string]string) {
	w.scenario.Helper()
	w.scenario.Eventually(func(g gomega.Gomega, ctx context.Context) {
		data, err := w.hello(ctx, namespace, name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		for key, value := range want {
			g.Expect(data).To(gomega.HaveKeyWithValue(key, value), "ConfigMap %s/%s in %s", namespace, name, w.name)
		}
	}).WithContext(w.scenario.Context()).Should(gomega.Succeed())
}

// expectNothing fails if the cluster has a Helm release or an object of the chart hello.
func (w *workload) expectNothing(namespace, name string) {
	w.scenario.Helper()
	storage, err := w.storage(w.scenario.Context())
	w.scenario.must(err)
	w.scenario.Expect(storage).To(gomega.BeEmpty(), "Helm's storage in %s", w.name)
	data, err := w.hello(w.scenario.Context(), namespace, name)
	w.scenario.must(err)
	w.scenario.Expect(data).To(gomega.BeNil(), "ConfigMap %s/%s in %s", namespace, name, w.name)
}

// eventuallyReleased waits until the release of a HelmOp in the cluster is deployed at a revision and the HelmOpRelease
// reports the same. It returns the HelmOpRelease.
func (w *workload) eventuallyReleased(helmOp *addonsv1.HelmOp, namespace, name string,
	number int,
) *addonsv1.HelmOpRelease {
	s := w.scenario
	s.Helper()
	var child *addonsv1.HelmOpRelease
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		revisions, err := w.revisions(ctx, namespace, name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(revisions).NotTo(gomega.BeEmpty(), "no release %s/%s in %s", namespace, name, w.name)
		newest := revisions[len(revisions)-1]
		g.Expect(summaries(revisions[len(revisions)-1:])).To(gomega.Equal([]string{fmt.Sprintf("%d deployed", number)}))

		child = s.children(ctx, g, helmOp)[w.name]
		g.Expect(child).NotTo(gomega.BeNil(), "no HelmOpRelease of %s for %s", helmOp.Name, w.name)
		g.Expect(child.Spec.Release).To(gomega.Equal(addonsv1.ReleaseIdentity{Name: name, Namespace: namespace}))
		expectCondition(g, child, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason)
		expectCondition(g, child, addonsv1.ReleasedCondition, metav1.ConditionTrue, addonsv1.ReleasedReason)
		expectCondition(g, child, addonsv1.ClusterReachableCondition, metav1.ConditionTrue, addonsv1.ClusterReachableReason)
		g.Expect(child.Status.ObservedGeneration).To(gomega.Equal(child.Generation))
		g.Expect(child.Status.Release).NotTo(gomega.BeNil())
		g.Expect(child.Status.Release.Revision).To(gomega.BeEquivalentTo(number))
		g.Expect(child.Status.Release.Status).To(gomega.Equal("deployed"))
		g.Expect(newest.Labels).To(gomega.HaveKeyWithValue("addons.cluster.x-k8s.io/release-uid", string(child.UID)))
		g.Expect(newest.Labels).To(gomega.HaveKeyWithValue("addons.cluster.x-k8s.io/revision", strconv.Itoa(number)))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return child
}
