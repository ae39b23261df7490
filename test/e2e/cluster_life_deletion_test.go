// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// cloudFinalizer represents the work of a cloud controller manager before a load balancer is deleted.
const cloudFinalizer = "cloud.example/load-balancer"

// beforeDelete makes HelmOp uninstall releases before their Cluster is deleted.
func beforeDelete(timeout time.Duration) func(*addonsv1.HelmOp) {
	return func(helmOp *addonsv1.HelmOp) {
		helmOp.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{Timeout: metav1.Duration{Duration: timeout}}
	}
}

// holdBack sets, or removes, a finalizer on an object of a release of the chart hello.
func (w *workload) holdBack(s *scenario, name string, hold bool) {
	s.Helper()
	configMap := &corev1.ConfigMap{}
	s.must(w.Get(s.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: name}, configMap))
	before := configMap.DeepCopy()
	configMap.Finalizers = nil
	if hold {
		configMap.Finalizers = []string{cloudFinalizer}
	}
	s.must(w.Patch(s.Context(), configMap, client.MergeFrom(before)))
}

// deletionHeld checks that the deletion of a Cluster is held.
func deletionHeld(g gomega.Gomega, cluster *clusterv1.Cluster) {
	g.Expect(cluster.DeletionTimestamp.IsZero()).To(gomega.BeFalse())
	g.Expect(cluster.Annotations).To(gomega.HaveKeyWithValue(addonsv1.DeletionHoldAnnotation, gomega.HavePrefix("20")))
	g.Expect(cluster.Spec.Paused).To(gomega.HaveValue(gomega.BeTrue()))
}

// eventuallyEventText waits for an Event about an object whose message has some texts, and returns the message.
func (s *scenario) eventuallyEventText(kind, name, eventType, reason string, texts ...string) string {
	s.Helper()
	var note string
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		list := &eventsv1.EventList{}
		g.Expect(s.client.List(ctx, list, client.InNamespace(s.namespace))).To(gomega.Succeed())
		note = ""
		for i := range list.Items {
			e := &list.Items[i]
			if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Type == eventType && e.Reason == reason &&
				!slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(e.Note, text) }) {
				note = e.Note
			}
		}
		g.Expect(note).NotTo(gomega.BeEmpty(), "no Event %s %s about %s %s", eventType, reason, kind, name)
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return note
}

// TestClusterDeletionWaitsForUninstallation deletes a Cluster with two releases. One must be uninstalled first. The
// deletion waits until the objects of this release are deleted, and HelmOp does not touch the other release.
func TestClusterDeletionWaitsForUninstallation(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	named := func(helmOp *addonsv1.HelmOp) { helmOp.Spec.Release.Name = helmOp.Name }
	balancer, other := s.newHelmOp("balancer", forAll, named, beforeDelete(5*time.Minute)),
		s.newHelmOp("other", forAll, named)
	s.create(balancer)
	s.create(other)
	one.eventuallyReleased(balancer, releaseNamespace, "balancer", 1)
	one.eventuallyReleased(other, releaseNamespace, "other", 1)
	one.holdBack(s, "balancer", true)
	before, err := one.storage(s.Context())
	s.must(err)

	s.step("waits until the objects of the release are deleted", func(s *scenario) {
		s.remove(s.cluster("one"))
		s.eventuallyCluster("one", deletionHeld)
		s.Eventually(func(g gomega.Gomega, ctx context.Context) {
			configMap := &corev1.ConfigMap{}
			g.Expect(one.Get(ctx, client.ObjectKey{Namespace: releaseNamespace, Name: "balancer"},
				configMap)).To(gomega.Succeed())
			g.Expect(configMap.DeletionTimestamp.IsZero()).To(gomega.BeFalse())
		}).WithContext(s.Context()).Should(gomega.Succeed())
		s.Consistently(func(g gomega.Gomega) {
			deletionHeld(g, s.cluster("one"))
			g.Expect(s.children(s.Context(), g, balancer)).To(gomega.HaveKey("one"))
		}).Should(gomega.Succeed())
		s.eventuallyEventText("Cluster", "one", corev1.EventTypeNormal, addonsv1.ClusterDeletionHeldEvent)
	})
	s.step("is held at the first try, despite concurrent writes of Cluster API", func(s *scenario) {
		requests, err := s.env.Management.Server.Requests(apiserver.ByUser(environment.User),
			apiserver.OnResource("clusters"), apiserver.WithVerb("patch"),
			func(r apiserver.Request) bool {
				return r.Namespace == s.namespace && r.Name == "one" && r.Subresource == ""
			})
		s.must(err)
		// A reconciliation whose cached state lacks the hold may try again to create it, and fail.
		s.Expect(requests).NotTo(gomega.BeEmpty())
		for i, request := range requests {
			if i == 0 {
				s.Expect(request.Code).To(gomega.Equal(http.StatusOK))
			} else {
				s.Expect(request.Code).To(gomega.Equal(http.StatusUnprocessableEntity))
			}
		}
	})
	s.step("does not touch the other release", func(s *scenario) {
		now, err := one.storage(s.Context())
		s.must(err)
		const record = releaseNamespace + "/sh.helm.release.v1.other.v1"
		s.Expect(before).To(gomega.HaveKey(record))
		s.Expect(now).To(gomega.HaveKeyWithValue(record, before[record]))
		s.Expect(s.children(s.Context(), s, other)["one"].DeletionTimestamp.IsZero()).To(gomega.BeTrue())
	})
	s.step("continues after the uninstallation", func(s *scenario) {
		one.in(s).holdBack(s, "balancer", false)
		s.eventuallyGone(s.clusterObject("one"))
		s.eventuallyEventText("Cluster", "one", corev1.EventTypeNormal, addonsv1.ClusterDeletionReleasedEvent)
		s.eventuallyEventText("HelmOp", "balancer", corev1.EventTypeNormal, addonsv1.UninstalledEvent)
		for _, helmOp := range []*addonsv1.HelmOp{balancer, other} {
			s.eventually(helmOp, ready(0))
			s.Eventually(func(g gomega.Gomega) {
				g.Expect(s.children(s.Context(), g, helmOp)).To(gomega.BeEmpty())
			}).Should(gomega.Succeed())
		}
	})
}

// clusterObject returns a Cluster with only its name.
func (s *scenario) clusterObject(name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

// TestClusterDeletionHoldIsBounded checks that the hold of the deletion of a Cluster ends in time. The cases are an
// object that is not deleted, an API server that does not answer, and a paused release.
func TestClusterDeletionHoldIsBounded(t *testing.T) {
	s := newScenario(t)
	options := []testbed.ClusterOptions{}
	for _, name := range []string{"stuck", "unreachable", "rests", "paused", "stopped"} {
		options = append(options, testbed.ClusterOptions{Name: name, Labels: map[string]string{addonsLabel: name},
			PodCIDRs: []string{"10.1.0.0/16"}})
	}
	clusters := map[string]*workload{}
	for _, w := range s.clusters(options...) {
		clusters[w.name] = w
	}
	helmOp := func(s *scenario, name string, timeout time.Duration) *addonsv1.HelmOp {
		h := s.newHelmOp(name, beforeDelete(timeout))
		s.create(h)
		clusters[name].in(s).eventuallyReleased(h, releaseNamespace, name, 1)
		return h
	}
	s.part("an object that stays", func(s *scenario) {
		helmOp(s, "stuck", 5*time.Second)
		clusters["stuck"].holdBack(s, "stuck", true)
		s.remove(s.cluster("stuck"))
		s.eventuallyGone(s.clusterObject("stuck"))
		note := s.eventuallyEventText("Cluster", "stuck", corev1.EventTypeWarning, addonsv1.ClusterDeletionReleasedEvent)
		s.Expect(note).To(gomega.ContainSubstring("not uninstalled in time"))
	})
	s.part("an API server that does not answer", func(s *scenario) {
		helmOp(s, "unreachable", 5*time.Second)
		s.must(clusters["unreachable"].server.Stop(s.Context()))
		s.remove(s.cluster("unreachable"))
		s.eventuallyGone(s.clusterObject("unreachable"))
		s.eventuallyEventText("Cluster", "unreachable", corev1.EventTypeWarning, addonsv1.ClusterDeletionReleasedEvent)
	})
	s.part("a paused HelmOp", func(s *scenario) {
		h := helmOp(s, "rests", 10*time.Minute)
		update(s, h, func(h *addonsv1.HelmOp) { h.Spec.Paused = true })
		s.remove(s.cluster("rests"))
		s.eventuallyGone(s.clusterObject("rests"))
		update(s, h, func(h *addonsv1.HelmOp) { h.Spec.Paused = false })
		s.eventually(h, ready(0))
	})
	s.part("a pause by a user is kept", func(s *scenario) {
		h := helmOp(s, "stopped", 10*time.Minute)
		clusters["stopped"].holdBack(s, "stopped", true)
		s.remove(s.cluster("stopped"))
		s.eventuallyEventText("Cluster", "stopped", corev1.EventTypeNormal, addonsv1.ClusterDeletionHeldEvent)
		update(s, s.cluster("stopped"), annotatePaused[*clusterv1.Cluster](true))
		isPaused := func(g gomega.Gomega, c *clusterv1.Cluster) {
			g.Expect(c.Annotations).To(gomega.HaveKeyWithValue(addonsv1.DeletionHoldAnnotation, "paused"))
			g.Expect(c.Spec.Paused).To(gomega.HaveValue(gomega.BeTrue()))
		}
		s.eventuallyCluster("stopped", isPaused)
		s.Consistently(func(g gomega.Gomega) { isPaused(g, s.cluster("stopped")) }).Should(gomega.Succeed())
		update(s, s.cluster("stopped"), annotatePaused[*clusterv1.Cluster](false))
		clusters["stopped"].in(s).holdBack(s, "stopped", false)
		s.eventuallyGone(s.clusterObject("stopped"))
		s.eventuallyEventText("Cluster", "stopped", corev1.EventTypeNormal, addonsv1.ClusterDeletionReleasedEvent)
		s.remove(h)
	})
	s.part("a pause by another program is kept", func(s *scenario) {
		h := helmOp(s, "paused", 10*time.Minute)
		s.pause("paused", true)
		s.remove(s.cluster("paused"))
		s.remove(h)
		s.Consistently(func(g gomega.Gomega) {
			g.Expect(s.cluster("paused").Annotations).NotTo(gomega.HaveKey(addonsv1.DeletionHoldAnnotation))
		}).Should(gomega.Succeed())
		clusters["paused"].in(s).eventuallyRevisions(releaseNamespace, "paused", "1 deployed")
		s.pause("paused", false)
		s.eventuallyGone(s.clusterObject("paused"))
		s.eventuallyEventText("Cluster", "paused", corev1.EventTypeNormal, addonsv1.ClusterDeletionReleasedEvent)
		s.eventuallyGone(h)
	})
}
