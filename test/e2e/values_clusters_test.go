// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// separate are Clusters that share an API server, each with its own namespace for releases.
type separate map[string]*workload

// TestValuesPerCluster has a Secret for each Cluster.
func TestValuesPerCluster(t *testing.T) {
	s := newScenario(t)
	host := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	clusters := separate{host.name: host}
	for _, name := range []string{"two", "three"} {
		s.createCluster(testbed.ClusterOptions{Name: name, PodCIDRs: []string{"10.2.0.0/16"}, Host: host.name})
		clusters[name] = &workload{Client: host.Client, scenario: s, name: name, server: host.server}
	}
	for name, do := range map[string]func(*scenario, separate){
		"a change for one Cluster": testSecretOfOneCluster,
		"a missing Secret":         testMissingSecretOfOneCluster,
		"in overrides":             testOverridesWithSecrets,
		"no secret is leaked":      testSecretOfOneClusterStaysSecret,
		"an old HelmOp revision":   testSecretUnderAnOldRevision,
		"an invalid name":          testInvalidNameForOneCluster,
	} {
		s.part(name, func(s *scenario) {
			in := separate{}
			for name, w := range clusters {
				in[name] = w.in(s)
			}
			do(s, in)
		})
	}
}

// perCluster returns a HelmOp with a Secret for each Cluster, named after the Cluster and the HelmOp.
func (s *scenario) perCluster(name string, change ...func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
	return s.newHelmOp(name, append([]func(*addonsv1.HelmOp){forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Release.Namespace = name + "-{{ .Cluster.metadata.name }}"
		h.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "{{ .Cluster.metadata.name }}-" + name}}
	}}, change...)...)
}

// has waits until the release of a HelmOp in a Cluster has this Helm revision and these values.
func (c separate) has(helmOp *addonsv1.HelmOp, cluster string, revision int,
	hello map[string]string,
) *addonsv1.HelmOpRelease {
	w, namespace := c[cluster], helmOp.Name+"-"+cluster
	w.scenario.Helper()
	child := w.eventuallyReleased(helmOp, namespace, helmOp.Name, revision)
	w.eventuallyHello(namespace, helmOp.Name, hello)
	return child
}

// stays fails if the release of a HelmOp gets another Helm revision.
func (c separate) stays(helmOp *addonsv1.HelmOp, cluster string, want ...string) {
	w := c[cluster]
	s := w.scenario
	s.Helper()
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		revisions, err := w.revisions(ctx, helmOp.Name+"-"+cluster, helmOp.Name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(summaries(revisions)).To(gomega.Equal(want), "revisions of %s in %s", helmOp.Name, cluster)
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

func tokenIs(token string) map[string]string {
	return map[string]string{"tokenDigest": sha256Of(token)}
}

func testSecretOfOneCluster(s *scenario, clusters separate) {
	secrets := map[string]*corev1.Secret{}
	for name := range clusters {
		secrets[name] = s.createSecret(name+"-change", "token: of "+name+"\n")
	}
	helmOp := s.perCluster("change", func(h *addonsv1.HelmOp) {
		// A change of one Secret is not a rollout: the second wave must not wait for the first.
		h.Spec.Rollout = &addonsv1.Rollout{Waves: []addonsv1.Wave{{
			Name: "last", ClusterSelector: metav1.LabelSelector{}, Promotion: addonsv1.WavePromotionManual,
		}}}
	})
	s.create(helmOp)
	for name := range clusters {
		clusters.has(helmOp, name, 1, tokenIs("of "+name))
	}
	s.eventually(helmOp, ready(3), inPhase(1, addonsv1.RolloutPhaseComplete))
	update(s, secrets["two"], func(o *corev1.Secret) { o.Data = valuesData("token: another\n") })
	child := clusters.has(helmOp, "two", 2, tokenIs("another"))
	s.Expect(child.Spec.Rollout.Revision).To(gomega.BeEquivalentTo(1), "the HelmOp revision")
	s.eventually(helmOp, ready(3), inPhase(1, addonsv1.RolloutPhaseComplete))
	clusters.stays(helmOp, "one", "1 deployed")
	clusters.stays(helmOp, "two", "1 superseded", "2 deployed")
	clusters.stays(helmOp, "three", "1 deployed")
}

func testMissingSecretOfOneCluster(s *scenario, clusters separate) {
	s.createSecret("one-missing", "token: of one\n")
	s.createSecret("three-missing", "token: of three\n")
	helmOp := s.perCluster("missing")
	s.create(helmOp)
	clusters.has(helmOp, "one", 1, tokenIs("of one"))
	clusters.has(helmOp, "three", 1, tokenIs("of three"))
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.Failures).To(gomega.ConsistOf(addonsv1.ClusterFailure{
				Cluster: "two", Reason: addonsv1.ReferenceNotFoundReason,
				Message: `spec.valuesFrom[0] for Cluster "two": Secret ` + s.namespace +
					"/two-missing: not found; create it or correct the reference",
			}))
		})
	secret := s.createSecret("two-missing", "token: of two\n")
	clusters.has(helmOp, "two", 1, tokenIs("of two"))
	s.eventually(helmOp, ready(3))

	// A deleted Secret does not change the release.
	s.remove(secret)
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason))
	clusters.stays(helmOp, "two", "1 deployed")
	s.createSecret("two-missing", "token: of two again\n")
	clusters.has(helmOp, "two", 2, tokenIs("of two again"))
	s.eventually(helmOp, ready(3))
	clusters.stays(helmOp, "one", "1 deployed")
}

func testOverridesWithSecrets(s *scenario, clusters separate) {
	const key = "password"
	s.label("two", "over", "yes")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "two-over"},
		Data: map[string][]byte{key: []byte("00123")}}
	s.create(secret)
	s.createConfigMap("over", "greeting: from the override\n")
	helmOp := s.newHelmOp("over", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Release.Namespace = "over-{{ .Cluster.metadata.name }}"
		h.Spec.Values = helloValues(map[string]any{"greeting": "from the HelmOp", "token": "of all"})
		h.Spec.PostRender = &addonsv1.PostRender{
			CommonMetadata: &addonsv1.ObjectMetadata{Labels: map[string]string{"a": "all", "b": "all"}},
		}
		h.Spec.Overrides = []addonsv1.Override{{
			Name: "over", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"over": "yes"}},
			ValuesFrom: []addonsv1.ValuesReference{
				{Kind: "ConfigMap", Name: "over"},
				{Kind: "Secret", Name: "{{ .Cluster.metadata.name }}-over", Key: key, TargetPath: "token"},
			},
			ValuesTemplate: "region: in {{ .Cluster.metadata.name }}\n",
			PostRender: &addonsv1.PostRender{
				CommonMetadata: &addonsv1.ObjectMetadata{Labels: map[string]string{"b": "{{ .Cluster.metadata.name }}"}},
				Patches: []addonsv1.Patch{{
					Patch:  "- {op: add, path: /data/patched, value: \"{{ .Cluster.metadata.name }}\"}",
					Target: &addonsv1.ObjectSelector{Kind: "ConfigMap"},
				}},
			},
			ReleaseOptions: addonsv1.ReleaseOptions{Upgrade: &addonsv1.UpgradeOptions{MaxHistory: ptr.To[int32](3)}},
		}}
	})
	s.create(helmOp)
	expectLabels := func(cluster string, want map[string]string) {
		s.Helper()
		configMap := &corev1.ConfigMap{}
		s.must(clusters[cluster].Get(s.Context(), client.ObjectKey{Namespace: "over-" + cluster, Name: "over"}, configMap))
		for key, value := range want {
			s.Expect(configMap.Labels).To(gomega.HaveKeyWithValue(key, value), "in %s", cluster)
		}
	}
	clusters.has(helmOp, "one", 1, map[string]string{"greeting": "from the HelmOp", "tokenDigest": sha256Of("of all")})
	expectLabels("one", map[string]string{"a": "all", "b": "all"})
	child := clusters.has(helmOp, "two", 1, map[string]string{
		"greeting": "from the override", "tokenDigest": sha256Of("00123"), "region": "in two", "patched": "two",
	})
	expectLabels("two", map[string]string{"a": "all", "b": "two"})
	s.Expect(child.Spec.Upgrade.MaxHistory).To(gomega.HaveValue(gomega.BeEquivalentTo(3)))
	s.eventually(helmOp, ready(3), inPhase(1, addonsv1.RolloutPhaseComplete))

	update(s, secret, func(o *corev1.Secret) { o.Data[key] = []byte("00124") })
	clusters.has(helmOp, "two", 2, tokenIs("00124"))
	s.eventually(helmOp, ready(3), inPhase(1, addonsv1.RolloutPhaseComplete))
	clusters.stays(helmOp, "one", "1 deployed")

	// A change of an object that two Clusters could share creates a HelmOp revision, but no Helm revision in Clusters that
	// do not use it.
	update(s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "over"}},
		func(o *corev1.ConfigMap) { o.Data["values.yaml"] = "greeting: changed\n" })
	clusters.has(helmOp, "two", 3, map[string]string{"greeting": "changed"})
	s.eventually(helmOp, ready(3), inPhase(2, addonsv1.RolloutPhaseComplete))
	clusters.stays(helmOp, "one", "1 deployed")
}

// testSecretOfOneClusterStaysSecret uses values that a chart's schema and an API server refuse and quote.
func testSecretOfOneClusterStaysSecret(s *scenario, clusters separate) {
	marker, whole := "s3cret/"+rand.Text(), "s3cret/"+rand.Text()
	for name := range clusters {
		s.createSecret(name+"-hidden", "podCIDR: "+marker+"\n")
		s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name + "-hidden-one"},
			Data: map[string][]byte{"cidr": []byte(whole)}})
	}
	ofDocument := s.perCluster("hidden",
		func(h *addonsv1.HelmOp) { h.Spec.Values = rawJSON(map[string]any{"cluster": "one"}) })
	ofPath := s.perCluster("hidden-one", func(h *addonsv1.HelmOp) {
		h.Spec.Values = rawJSON(map[string]any{"cluster": "one"})
		h.Spec.Overrides = []addonsv1.Override{{Name: "all", ValuesFrom: h.Spec.ValuesFrom}}
		h.Spec.Overrides[0].ValuesFrom[0].Key, h.Spec.Overrides[0].ValuesFrom[0].TargetPath = "cidr", "podCIDR"
		h.Spec.ValuesFrom = nil
	})
	for _, helmOp := range []*addonsv1.HelmOp{ofDocument, ofPath} {
		s.create(helmOp)
		for name := range clusters {
			s.child(helmOp, name, childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ValuesInvalidReason))
		}
	}
	s.expectAbsent(marker, whole)
}

// testSecretUnderAnOldRevision changes the Secret of a Cluster while the Cluster stays at an old HelmOp revision.
func testSecretUnderAnOldRevision(s *scenario, clusters separate) {
	secrets := map[string]*corev1.Secret{}
	for name := range clusters {
		secrets[name] = s.createSecret(name+"-old", "token: of "+name+"\n")
	}
	helmOp := s.perCluster("old",
		func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(map[string]any{"greeting": "first"}) })
	s.create(helmOp)
	clusters.has(helmOp, "one", 1, tokenIs("of one"))
	s.eventually(helmOp, ready(3), inPhase(1, addonsv1.RolloutPhaseComplete))
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Rollout = &addonsv1.Rollout{Paused: true}
		h.Spec.Values = helloValues(map[string]any{"greeting": "second"})
	})
	s.eventually(helmOp, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Rollout).To(gomega.HaveValue(gomega.HaveField("Revision", gomega.BeEquivalentTo(2))))
	})
	update(s, secrets["one"], func(o *corev1.Secret) { o.Data = valuesData("token: another\n") })
	child := clusters.has(helmOp, "one", 2, map[string]string{"greeting": "first", "tokenDigest": sha256Of("another")})
	s.Expect(child.Spec.Rollout.Revision).To(gomega.BeEquivalentTo(1), "the HelmOp revision")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Rollout = nil })
	clusters.has(helmOp, "one", 3, map[string]string{"greeting": "second", "tokenDigest": sha256Of("another")})
	clusters.has(helmOp, "two", 2, map[string]string{"greeting": "second", "tokenDigest": sha256Of("of two")})
	s.eventually(helmOp, ready(3))
}

func testInvalidNameForOneCluster(s *scenario, clusters separate) {
	for _, name := range []string{"one", "three"} {
		s.label(name, "secret", "invalid-"+name)
		s.createSecret("invalid-"+name, "token: of "+name+"\n")
	}
	s.label("two", "secret", "In_Valid")
	helmOp := s.perCluster("invalid",
		func(h *addonsv1.HelmOp) { h.Spec.ValuesFrom[0].Name = "{{ .Cluster.metadata.labels.secret }}" })
	s.create(helmOp)
	clusters.has(helmOp, "one", 1, tokenIs("of one"))
	s.eventually(helmOp, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Failures).To(gomega.HaveLen(1))
		g.Expect(h.Status.Failures[0]).To(gomega.And(gomega.HaveField("Cluster", "two"),
			gomega.HaveField("Reason", addonsv1.TemplateFailedReason),
			gomega.HaveField("Message",
				gomega.HavePrefix("spec.valuesFrom[0].name: yields a name that is not lower case letters"))))
	})
	s.createSecret("in-valid", "token: of two\n")
	s.label("two", "secret", "in-valid")
	clusters.has(helmOp, "two", 1, tokenIs("of two"))
	s.eventually(helmOp, ready(3))
}
