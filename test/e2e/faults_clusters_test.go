// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// unreachable checks that a release waits for its Cluster, and that no failure is counted.
func unreachable(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
	expectCondition(g, child, addonsv1.ClusterReachableCondition, metav1.ConditionFalse, addonsv1.ClusterUnreachableReason)
	expectCondition(g, child, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ClusterUnreachableReason)
	g.Expect(child.Status.Failures).To(gomega.BeZero(), "failures")
}

func greeting(text string) map[string]any { return map[string]any{"greeting": text} }

// setGreeting changes the values of a HelmOp with the chart hello.
func (s *scenario) setGreeting(helmOp *addonsv1.HelmOp, text string) {
	s.Helper()
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(greeting(text)) })
}

// TestClusterCatchesUpAfterAPIServerOutage stops the API server of one of two Clusters. The other Cluster is served
// meanwhile, and the first one is upgraded when its API server is back.
func TestClusterCatchesUpAfterAPIServerOutage(t *testing.T) {
	s := newScenario(t)
	workloads := s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}})
	one, two := workloads[0], workloads[1]
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(2))

	s.must(one.server.StopAPIServer(s.Context()))
	s.setGreeting(helmOp, "two")
	two.eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
	two.eventuallyHello(releaseNamespace, "hello", map[string]string{"greeting": "two"})
	s.child(helmOp, "one", unreachable)
	s.eventually(helmOp,
		condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.WaitingForClustersReason),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.Clusters).To(gomega.HaveValue(gomega.Equal(addonsv1.ClusterCounts{
				Selected: 2, UpToDate: 1, Ready: 1, Unreachable: 1,
			})))
			g.Expect(h.Status.Failures).To(gomega.BeEmpty())
		})

	s.must(one.server.StartAPIServer(s.Context()))
	one.eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
	one.eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 deployed")
	one.eventuallyHello(releaseNamespace, "hello", map[string]string{"greeting": "two"})
	s.eventually(helmOp, ready(2))
	two.eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 deployed")
}

// connectionFollows is how long a connection may take to use a new kubeconfig, on a busy machine, in addition to three
// usual upgrades. On an idle machine it takes two seconds. By probes alone, the old connection would be closed only
// after five failures, 10 s apart.
const connectionFollows = 30 * time.Second

// TestKubeconfigReplaced makes the kubeconfig of a Cluster invalid and writes a new one: with other credentials, then
// with another endpoint. Nothing is reinstalled.
func TestKubeconfigReplaced(t *testing.T) {
	s := newScenario(t)
	w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
	began := time.Now()
	s.setGreeting(helmOp, "two")
	w.eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
	s.SetDefaultEventuallyTimeout(connectionFollows + 3*time.Since(began))

	for i, options := range []apiserver.RotateOptions{{}, {NewPort: true}} {
		s.must(s.env.Management.Provider.RotateKubeconfig(s.Context(), s.key("one"), options))
		w.reconnect()
		began := time.Now()
		s.setGreeting(helmOp, began.String())
		w.eventuallyReleased(helmOp, releaseNamespace, "hello", 3+i)
		s.Logf("with %+v: upgraded after %s", options, time.Since(began))
		w.eventuallyHello(releaseNamespace, "hello", map[string]string{"greeting": began.String()})
	}
	w.eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 superseded", "3 superseded", "4 deployed")
}

// reconnect connects to a workload cluster again.
func (w *workload) reconnect() {
	w.scenario.Helper()
	var err error
	w.Client, err = client.New(w.server.RESTConfig(), client.Options{Scheme: w.scenario.client.Scheme()})
	w.scenario.must(err)
}

// TestUnresponsiveClusterDelaysNoOther freezes the API server of a Cluster: it accepts connections and never answers.
func TestUnresponsiveClusterDelaysNoOther(t *testing.T) {
	s := newScenario(t)
	workloads := s.clusters(
		testbed.ClusterOptions{Name: "fine", PodCIDRs: []string{"10.1.0.0/16"}},
		testbed.ClusterOptions{Name: "hung", PodCIDRs: []string{"10.2.0.0/16"}})
	fine, hung := workloads[0], workloads[1]
	s.must(hung.server.Hang())
	s.Cleanup(func() {
		if err := hung.server.Resume(); err != nil {
			s.Error(err)
		}
	})
	created := time.Now()
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	fine.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
	t.Logf("installed beside an unresponsive cluster in %s", time.Since(created))
	s.setGreeting(helmOp, "again")
	fine.eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
	t.Logf("upgraded beside an unresponsive cluster in %s", time.Since(created))
	s.child(helmOp, "hung", unreachable)

	s.must(hung.server.Resume())
	hung.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
	hung.eventuallyRevisions(releaseNamespace, "hello", "1 deployed")
	hung.eventuallyHello(releaseNamespace, "hello", map[string]string{"greeting": "again"})
	s.eventually(helmOp, ready(2))
}

// TestTemplateErrorInOneCluster uses a template that cannot be rendered for one of three Clusters.
func TestTemplateErrorInOneCluster(t *testing.T) {
	s := newScenario(t)
	zone := func(name string) map[string]string { return map[string]string{"zone": name} }
	workloads := s.clusters(
		testbed.ClusterOptions{Name: "one", Labels: zone("a"), PodCIDRs: []string{"10.1.0.0/16"}},
		testbed.ClusterOptions{Name: "two", Labels: zone("b"), PodCIDRs: []string{"10.2.0.0/16"}},
		testbed.ClusterOptions{Name: "three", Labels: map[string]string{"other": "label"}, PodCIDRs: []string{"10.3.0.0/16"}})
	helmOp := s.newHelmOp("hello", forAll, func(helmOp *addonsv1.HelmOp) {
		helmOp.Spec.ValuesTemplate = "greeting: hello\nregion: {{ .Cluster.metadata.labels.zone }}\n"
	})
	s.create(helmOp)
	for i, region := range []string{"a", "b"} {
		workloads[i].eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
		workloads[i].eventuallyHello(releaseNamespace, "hello", map[string]string{"region": region})
	}
	s.eventually(helmOp,
		failure("three", addonsv1.TemplateFailedReason, "zone", "line 2", "valuesTemplate"),
		condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.Clusters).To(gomega.HaveValue(gomega.Equal(addonsv1.ClusterCounts{
				Selected: 3, UpToDate: 2, Ready: 2, Failed: 1,
			})))
			g.Expect(conditions.GetMessage(h, addonsv1.ReadyCondition)).To(gomega.ContainSubstring("three"))
		})
	s.eventuallyEvent(helmOp, addonsv1.ReleasesFailedReason)
	workloads[2].expectNothing(releaseNamespace, "hello")

	s.label("three", "zone", "c")
	workloads[2].eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
	workloads[2].eventuallyHello(releaseNamespace, "hello", map[string]string{"region": "c"})
	s.eventually(helmOp, ready(3))

	// A release stays if its template can no longer be rendered.
	s.label("one", "zone", "")
	s.eventually(helmOp, failure("one", addonsv1.TemplateFailedReason, "zone", "line 2"))
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		revisions, err := workloads[0].revisions(ctx, releaseNamespace, "hello")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(summaries(revisions)).To(gomega.Equal([]string{"1 deployed"}))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.label("one", "zone", "d")
	workloads[0].eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
	s.eventually(helmOp, ready(3))
}
