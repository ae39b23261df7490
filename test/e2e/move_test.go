// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	// moveLabel on a Secret or ConfigMap makes clusterctl move include the object.
	moveLabel = "clusterctl.cluster.x-k8s.io/move"

	// greetsLabel on a Cluster is the text of one release there.
	greetsLabel = "greets"
)

// TestMove moves Clusters and HelmOps from one management cluster to another by clusterctl, with a running manager in
// each. It checks that nothing changes in the workload clusters.
func TestMove(t *testing.T) {
	begin(t)
	from := ownEnvironment(t, environment.Options{NoManager: true})
	to := ownEnvironment(t, environment.Options{NoManager: true, Beside: from})
	s := newScenarioIn(t, from)
	target := &scenario{T: t, Gomega: s.Gomega, env: to, client: to.Client, namespace: s.namespace}
	t.Cleanup(target.empty)
	for _, env := range []*environment.Environment{from, to} {
		if _, err := env.StartManager(t.Context(), "--management-cluster-namespaces="+s.namespace); err != nil {
			t.Fatal(err)
		}
	}
	records, storage := s.recordsIn("records")
	m := &move{
		records: records,
		kept: s.newHelmOp("kept", forAll, func(h *addonsv1.HelmOp) {
			h.Spec.Storage, h.Spec.Values = storage, helloValues(greeting("{{ .Cluster.metadata.labels."+greetsLabel+" }}"))
		}),
		near: s.newHelmOp("near", inManagementCluster, func(h *addonsv1.HelmOp) {
			h.Spec.Values = rawJSON(map[string]any{"cluster": "this", "podCIDR": "10.0.0.0/8"})
		}),
		helmOp: s.newHelmOp("hello", forAll, fromSecret), gaveUp: s.newHelmOp("gave-up", forAll, s.givingUp),
		rolling:    s.newHelmOp("rolling", forAll, s.rolling(canaryFirst(manually))),
		unapproved: s.newHelmOp("unapproved", forAll, s.rolling(nil)),
		returned: s.newHelmOp("returned", forAll, s.rolling(canaryFirst(func(r *addonsv1.Rollout) {
			r.OnFailure = addonsv1.RolloutFailureActionRollback
		}))),
	}

	s.step("two Clusters have releases with a history", func(s *scenario) { m.install(s) })
	s.step("moves all objects without touching a release", func(s *scenario) { m.move(s, target.in(s.T)) })
	s.step("upgrades in the other management cluster", func(s *scenario) { m.goOn(target.in(s.T)) })
	s.step("continues a rollout", func(s *scenario) { m.rollOn(target.in(s.T)) })
	s.step("upgrades a release with records in a registry", func(s *scenario) { m.readOn(target.in(s.T)) })
}

// move holds the HelmOps to move:
//   - a healthy one;
//   - one whose retries are spent;
//   - one in mid-rollout, approved, that waits for a promotion;
//   - one that waits for an approval;
//   - one whose rollout was rolled back;
//   - one with its records in a registry;
//   - one for the management cluster itself, whose first HelmOp revision has an older spec.
type move struct {
	helmOp, gaveUp, rolling, unapproved, returned, kept, near *addonsv1.HelmOp

	workloads []*workload
	records   *registry.Registry
	// digest is what unapproved waits for.
	digest string
}

// rolling installs the chart note with a rollout. A release is healthy unless its text begins with "bad" or "slow".
func (s *scenario) rolling(rollout *addonsv1.Rollout) func(*addonsv1.HelmOp) {
	return func(h *addonsv1.HelmOp) {
		h.Spec.Source = s.env.Source("charts/note", addonsv1.ArtifactReference{Tag: "1.0.0"})
		h.Spec.Release.Namespace = h.Name
		h.Spec.Values = rawJSON(greeting("one"))
		h.Spec.Rollout = rollout
		h.Spec.Health = &addonsv1.HealthOptions{Checks: []addonsv1.HealthCheck{noteCheck}}
	}
}

// fromSecret takes a value from a Secret that is labelled for the move.
func fromSecret(h *addonsv1.HelmOp) {
	h.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "values"}}
}

// givingUp rolls a failed upgrade back, without retries.
func (s *scenario) givingUp(h *addonsv1.HelmOp) {
	rollingBack(0)(h)
	h.Spec.Source = s.env.Source("charts/note", addonsv1.ArtifactReference{Tag: "1.0.0"})
	h.Spec.Release.Namespace = "gave-up"
	h.Spec.Values = nil
}

func (m *move) install(s *scenario) {
	for _, name := range []string{environment.CredentialsSecret, environment.CASecret,
		m.kept.Spec.Storage.Registry.SecretRef.Name,
		m.kept.Spec.Storage.Registry.CertSecretRef.Name} {
		update(s, s.secret(name), func(o *corev1.Secret) { o.Labels = map[string]string{moveLabel: ""} })
	}
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "values", Labels: map[string]string{moveLabel: ""}},
		StringData: map[string]string{"values.yaml": "token: secret\n"},
	})
	s.push(s.env.Registry, "charts/note", "1.0.0")
	all := []*addonsv1.HelmOp{m.helmOp, m.gaveUp, m.rolling, m.unapproved, m.returned, m.kept}
	for _, helmOp := range all {
		s.create(helmOp)
	}
	// clusterctl creates a Cluster of a ClusterClass in any order with its HelmOpReleases.
	s.must(s.env.Management.CreateClass(s.Context(), testbed.ClassOptions{Namespace: s.namespace, Name: "class"}))
	_, err := s.env.Management.CreateClassCluster(s.Context(), "class", testbed.ClusterOptions{Namespace: s.namespace,
		Name: "two", PodCIDRs: []string{"10.2.0.0/16"}, Labels: map[string]string{greetsLabel: "one"}})
	s.must(err)
	m.workloads = append(s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"},
		Labels: map[string]string{tierLabel: "canary", greetsLabel: "one"}}), s.workload("two"))
	for _, helmOp := range all {
		s.eventually(helmOp, ready(2), inPhase(1, addonsv1.RolloutPhaseComplete))
	}
	for _, helmOp := range []*addonsv1.HelmOp{m.rolling, m.unapproved} {
		s.requireApproval(helmOp)
		s.setValues(helmOp, greeting("two"))
	}
	s.approve(m.rolling, s.awaitsApproval(m.rolling, 2, 2))
	m.digest = s.awaitsApproval(m.unapproved, 2, 2)
	s.allowInManagementCluster()
	s.create(m.near)
	s.managementCluster().eventuallyReleased(m.near, releaseNamespace, "near", 1)
	s.setValues(m.near, map[string]any{"cluster": "this", "podCIDR": "10.1.0.0/16"})
	s.managementCluster().eventuallyReleased(m.near, releaseNamespace, "near", 2)
	s.eventually(m.near, condition(addonsv1.MovableCondition, metav1.ConditionFalse, addonsv1.ReferencesNotMovedReason))
	s.eventually(m.kept, condition(addonsv1.MovableCondition, metav1.ConditionTrue, addonsv1.MovableReason))
	s.eventually(m.rolling, waiting)
	s.setValues(m.returned, greeting("bad"))
	s.eventually(m.returned, hasReturned)
	m.workloads[0].in(s).eventuallyRevisions("returned", "returned", "1 superseded", "2 superseded", "3 deployed")
	s.setGreeting(m.helmOp, "two")
	s.setValues(m.gaveUp, map[string]any{"name": "no name for a ConfigMap"})
	for _, w := range m.workloads {
		w.in(s).eventuallyReleased(m.helmOp, releaseNamespace, "hello", 2)
		s.child(m.gaveUp, w.name, childCondition(addonsv1.StalledCondition, metav1.ConditionTrue,
			addonsv1.RetriesExhaustedReason))
		w.in(s).eventuallyRevisions("gave-up", "gave-up", "1 superseded", "2 failed", "3 deployed")
	}
	s.eventually(m.helmOp, ready(2))
}

// waiting checks that a rollout waits for its promotion, with the canary done.
func waiting(g gomega.Gomega, h *addonsv1.HelmOp) {
	inPhase(2, addonsv1.RolloutPhaseProgressing)(g, h)
	progress(1, 1, 0)(g, h)
	waitsFor("2/canary")(g, h)
}

// hasReturned checks that a rollout was rolled back.
func hasReturned(g gomega.Gomega, h *addonsv1.HelmOp) {
	inPhase(2, addonsv1.RolloutPhaseRolledBack)(g, h)
	expectCondition(g, h, addonsv1.RollingOutCondition, metav1.ConditionFalse, addonsv1.RolloutRolledBackReason)
}

// move runs clusterctl, and checks that all objects are in the other management cluster and none is left.
func (m *move) move(s, target *scenario) {
	target.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	target.allowInManagementCluster()
	before, management := m.contents(s), s.managementCluster()
	nearBefore, err := management.storage(s.Context())
	s.must(err)
	since := time.Now()
	// clusterctl retries failures for minutes.
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	out, err := s.env.Management.Clusterctl(ctx, "move", "-v", "2", "--namespace", s.namespace,
		"--to-kubeconfig", target.env.Management.KubeconfigFile())
	s.must(err)
	s.Log(out.Stderr)
	target.eventually(m.helmOp, ready(len(m.workloads)))
	target.eventually(m.rolling, waiting)
	target.eventually(m.returned, hasReturned)
	target.Expect(target.awaitsApproval(m.unapproved, 2, 2)).To(gomega.Equal(m.digest))
	for _, w := range m.workloads {
		target.child(m.helmOp, w.name, childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
		target.child(m.gaveUp, w.name, childCondition(addonsv1.StalledCondition, metav1.ConditionTrue,
			addonsv1.RetriesExhaustedReason))
	}
	target.Consistently(func(g gomega.Gomega) {
		g.Expect(m.contents(s)).To(gomega.Equal(before), "Helm's storage")
	}).Should(gomega.Succeed())
	for _, w := range m.workloads {
		writes, err := w.server.Requests(apiserver.Since(since), ofHelmOp, apiserver.Writes(), apiserver.Not(ofRecords))
		s.must(err)
		s.Expect(writes).To(gomega.BeEmpty(), "writes to %s", w.name)
		m.expectTakenOver(target, w)
	}
	// "This cluster" is now the other management cluster: the release is installed there, and the first one keeps its
	// release.
	target.managementCluster().eventuallyReleased(m.near, releaseNamespace, "near", 1)
	target.eventually(m.near, ready(1), inPhase(2, addonsv1.RolloutPhaseComplete))
	nearAfter, err := management.storage(s.Context())
	s.must(err)
	s.Expect(nearAfter).To(gomega.Equal(nearBefore))
	management.eventuallyHello(releaseNamespace, "near", map[string]string{"cluster": "this"})
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		for _, list := range []client.ObjectList{
			&addonsv1.HelmOpList{}, &addonsv1.HelmOpReleaseList{}, &addonsv1.HelmOpRevisionList{}, &clusterv1.ClusterList{},
		} {
			g.Expect(s.client.List(ctx, list, client.InNamespace(s.namespace))).To(gomega.Succeed())
			g.Expect(toJSON(list)).To(gomega.ContainSubstring(`"items":[]`), "%T in the old management cluster", list)
		}
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// goOn changes the HelmOp in the new management cluster.
func (m *move) goOn(target *scenario) {
	target.setGreeting(m.helmOp, "three")
	for _, w := range m.workloads {
		w.in(target).eventuallyReleased(m.helmOp, releaseNamespace, "hello", 3)
	}
	target.eventually(m.helmOp, ready(len(m.workloads)))
}

// rollOn promotes the canaries.
func (m *move) rollOn(target *scenario) {
	two := m.workloads[1].in(target)
	two.eventuallyRevisions("rolling", "rolling", "1 deployed")
	update(target, m.rolling, func(h *addonsv1.HelmOp) {
		h.Annotations = map[string]string{addonsv1.RolloutPromoteAnnotation: "2/canary"}
	})
	target.eventually(m.rolling, ready(2), inPhase(2, addonsv1.RolloutPhaseComplete))
	two.eventuallyRevisions("rolling", "rolling", "1 superseded", "2 deployed")
	m.workloads[0].in(target).eventuallyRevisions("rolling", "rolling", "1 superseded", "2 deployed")
	two.eventuallyRevisions("unapproved", "unapproved", "1 deployed")
	target.approve(m.unapproved, m.digest)
	target.eventually(m.unapproved, ready(2), inPhase(2, addonsv1.RolloutPhaseComplete))
	two.eventuallyRevisions("unapproved", "unapproved", "1 superseded", "2 deployed")
	target.eventually(m.returned, hasReturned)
	m.workloads[0].in(target).eventuallyRevisions("returned", "returned", "1 superseded", "2 superseded", "3 deployed")
	target.setValues(m.returned, greeting("three"))
	target.eventually(m.returned, ready(2), inPhase(3, addonsv1.RolloutPhaseComplete))
}

// readOn upgrades the release with records in a registry, also after the registry's credentials were replaced, and
// deletes the HelmOp. The first upgrade follows a change of the Clusters. It does not wait for the rollout, as the
// upgrade of a release does whose HelmOpRelease is lost.
func (m *move) readOn(target *scenario) {
	for _, w := range m.workloads {
		target.label(w.name, greetsLabel, "two")
		child := w.in(target).eventuallyReleased(m.kept, releaseNamespace, "kept", 2)
		target.Expect(child.Spec.Rollout).To(gomega.HaveValue(gomega.HaveField("Reason", addonsv1.ReleaseRolloutJoined)))
	}
	target.Expect(target.tags(m.records, "records")).To(gomega.HaveLen(2*len(m.workloads)),
		"records of before and after the move")
	password, err := m.records.AddUser("other")
	target.must(err)
	config, err := registry.DockerConfig(m.records.Host(), "other", password)
	target.must(err)
	target.must(m.records.RemoveUser(m.records.Username()))
	update(target, target.secret(m.kept.Spec.Storage.Registry.SecretRef.Name), func(o *corev1.Secret) {
		o.Data = map[string][]byte{corev1.DockerConfigJsonKey: config}
	})
	target.setGreeting(m.kept, "three")
	for _, w := range m.workloads {
		w.in(target).eventuallyReleased(m.kept, releaseNamespace, "kept", 3)
	}
	target.remove(m.kept)
	target.eventuallyGone(m.kept)
	target.remove(m.near)
	target.eventuallyGone(m.near)
	target.managementCluster().eventuallyRevisions(releaseNamespace, "near")
}

// contents returns Helm's storage in all Clusters.
func (m *move) contents(s *scenario) map[string]map[string]string { return s.contents(m.workloads) }

// contents returns Helm's storage in Clusters, by the name of the Cluster.
func (s *scenario) contents(workloads []*workload) map[string]map[string]string {
	s.Helper()
	all := map[string]map[string]string{}
	for _, w := range workloads {
		contents, err := w.contents(s.Context())
		s.must(err)
		all[w.name] = contents
	}
	return all
}

// ofRecords selects the changes of labels of Helm's records.
func ofRecords(r apiserver.Request) bool { return r.Verb == "patch" && r.Resource == "secrets" }

// expectTakenOver checks that all records of a Cluster, and the HelmOpReleases, name the new management cluster.
func (m *move) expectTakenOver(target *scenario, w *workload) {
	target.Helper()
	system := &corev1.Namespace{}
	target.must(target.client.Get(target.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	secrets := &corev1.SecretList{}
	target.must(w.List(target.Context(), secrets, client.MatchingLabels{"owner": "helm"}))
	target.Expect(secrets.Items).NotTo(gomega.BeEmpty())
	for i := range secrets.Items {
		target.Expect(secrets.Items[i].Labels).To(gomega.HaveKeyWithValue(addonsv1.ManagementClusterAnnotation,
			string(system.UID)), secrets.Items[i].Name)
	}
	target.child(m.helmOp, w.name, func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(child.Annotations).To(gomega.HaveKeyWithValue(addonsv1.ManagementClusterAnnotation, string(system.UID)))
	})
}
