// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// extension is a Runtime Extension of a manager.
type extension struct {
	port int
	ca   *pki.CA
	args []string
}

// newExtension writes a certificate for a Runtime Extension.
func newExtension(t *testing.T) *extension {
	t.Helper()
	ports, err := process.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA("extension")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Server("extension", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &extension{port: ports[0], ca: ca, args: []string{
		fmt.Sprintf("--runtime-extension-port=%d", ports[0]), "--runtime-extension-cert-dir=" + dir}}
}

// register registers the extension in Cluster API, and waits until it is discovered.
func (e *extension) register(s *scenario) {
	s.Helper()
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "helmop"}}
	config.Spec.ClientConfig.URL = fmt.Sprintf("https://127.0.0.1:%d", e.port)
	config.Spec.ClientConfig.CABundle = e.ca.PEM()
	config.Spec.NamespaceSelector = &metav1.LabelSelector{}
	s.create(config)
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.client.Get(ctx, client.ObjectKeyFromObject(config), config)).To(gomega.Succeed())
		g.Expect(conditions.IsTrue(config, runtimev1.ExtensionConfigDiscoveredCondition)).To(gomega.BeTrue(),
			"conditions %v", config.Status.Conditions)
		g.Expect(config.Status.Handlers).To(gomega.HaveLen(3))
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// pauses records whether a Cluster was ever paused.
type pauses struct {
	mu    sync.Mutex
	found []string
}

func (s *scenario) watchPauses(name string) *pauses {
	s.Helper()
	p := &pauses{}
	s.follow(&clusterv1.ClusterList{}, func(event watch.Event) {
		cluster, ok := event.Object.(*clusterv1.Cluster)
		if ok && cluster.Name == name && ptr.Deref(cluster.Spec.Paused, false) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.found = append(p.found, cluster.ResourceVersion)
		}
	})
	return p
}

func (p *pauses) expectNone(s *scenario) {
	s.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Expect(p.found).To(gomega.BeEmpty(), "the Cluster was paused")
}

// heldByExtension checks that the deletion of a Cluster is held without a pause, and that Cluster API reports this.
func heldByExtension(g gomega.Gomega, cluster *clusterv1.Cluster) {
	g.Expect(cluster.DeletionTimestamp.IsZero()).To(gomega.BeFalse())
	g.Expect(apiutil.HoldOf(cluster).IsOn()).To(gomega.BeTrue())
	g.Expect(cluster.Spec.Paused).To(gomega.BeNil())
	g.Expect(conditions.GetReason(cluster, clusterv1.ClusterDeletingCondition)).To(
		gomega.Equal(clusterv1.ClusterDeletingWaitingForBeforeDeleteHookReason))
}

// versions checks the versions in the spec and in the status of a control plane.
func (s *scenario) versions(ctx context.Context, g gomega.Gomega, cluster, specified, running string) {
	controlPlane, err := s.env.Management.ControlPlane(ctx, s.key(cluster))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect([]string{controlPlane.Spec.Version, controlPlane.Status.Version}).To(
		gomega.Equal([]string{specified, running}))
}

// workersVersion returns the version in the MachineDeployment of a Cluster.
func (s *scenario) workersVersion(ctx context.Context, g gomega.Gomega, cluster string) string {
	list := &clusterv1.MachineDeploymentList{}
	g.Expect(s.client.List(ctx, list, client.InNamespace(s.namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})).To(gomega.Succeed())
	g.Expect(list.Items).To(gomega.HaveLen(1))
	return list.Items[0].Spec.Template.Spec.Version
}

// TestRuntimeExtension runs a manager with the Runtime Extension together with Cluster API's core manager.
func TestRuntimeExtension(t *testing.T) {
	begin(t)
	e := newExtension(t)
	s := newScenarioIn(t, ownEnvironment(t, environment.Options{ManagerArgs: e.args}))
	s.chainClass()
	s.step("that is not registered: the deletion is held by a pause", func(s *scenario) {
		w, helmOp := s.chainCluster("unregistered", "", beforeDelete(5*time.Minute))
		w.holdBack(s, "unregistered", true)
		s.remove(s.cluster("unregistered"))
		s.eventuallyCluster("unregistered", deletionHeld)
		note := s.eventuallyEventText("Cluster", "unregistered", corev1.EventTypeWarning,
			addonsv1.ClusterDeletionHeldEvent)
		s.Expect(note).To(gomega.ContainSubstring("ExtensionConfig"))
		w.holdBack(s, "unregistered", false)
		s.eventuallyGone(s.clusterObject("unregistered"))
		s.remove(helmOp)
	})
	e.register(s)
	s.part("holds a deletion without a pause", testExtensionHoldsDeletion)
	s.part("holds each step, and the workers", testExtensionHoldsSteps)
	s.part("holds a step for the timeout at most", testExtensionTimesOut)
}

func testExtensionHoldsDeletion(s *scenario) {
	w, _ := s.chainCluster("deleted", "", beforeDelete(5*time.Minute))
	w.holdBack(s, "deleted", true)
	controlPlane, err := s.env.Management.ControlPlane(s.Context(), s.key("deleted"))
	s.must(err)
	pauses := s.watchPauses("deleted")
	s.remove(s.cluster("deleted"))
	s.eventuallyCluster("deleted", heldByExtension)
	s.Consistently(func(g gomega.Gomega) {
		heldByExtension(g, s.cluster("deleted"))
		g.Expect(s.client.Get(s.Context(), client.ObjectKeyFromObject(controlPlane), controlPlane)).To(gomega.Succeed())
		g.Expect(controlPlane.DeletionTimestamp.IsZero()).To(gomega.BeTrue())
	}).Should(gomega.Succeed())
	note := s.eventuallyEventText("Cluster", "deleted", corev1.EventTypeNormal, addonsv1.ClusterDeletionHeldEvent)
	s.Expect(note).To(gomega.ContainSubstring("The deletion of the Cluster waits until 1 release"))
	w.holdBack(s, "deleted", false)
	s.eventuallyGone(s.clusterObject("deleted"))
	s.eventuallyEventText("HelmOp", "deleted", corev1.EventTypeNormal, addonsv1.UninstalledEvent)
	pauses.expectNone(s)
}

func testExtensionHoldsSteps(s *scenario) {
	const missing = "9.9.9"
	_, helmOp := s.chainCluster("stepped", chainWorkers, func(h *addonsv1.HelmOp) {
		h.Spec.RefsByKubernetesVersion[1].Ref.Tag = missing
	})
	s.Expect(s.workersVersion(s.Context(), s, "stepped")).To(gomega.Equal(kubernetes134))
	s.must(s.env.Management.Upgrade(s.Context(), s.key("stepped"), kubernetes137))
	s.eventuallyEventText("Cluster", "stepped", corev1.EventTypeNormal, addonsv1.ClusterUpgradeHeldEvent,
		"The upgrade to "+kubernetes136+" waits for at most 30m0s")
	s.eventuallyCluster("stepped", func(g gomega.Gomega, cluster *clusterv1.Cluster) {
		g.Expect(conditions.GetMessage(cluster, clusterv1.ClusterTopologyReconciledCondition)).To(
			gomega.ContainSubstring("BeforeControlPlaneUpgrade"))
	})
	s.Consistently(func(g gomega.Gomega) {
		s.versions(s.Context(), g, "stepped", kubernetes135, kubernetes135)
	}).WithTimeout(10 * time.Second).Should(gomega.Succeed())
	// The last step is held too, so that the provider can be stopped before this step.
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.RefsByKubernetesVersion[1].Ref.Tag = "1.2.0-rc.1"
		h.Spec.RefsByKubernetesVersion[0].Ref.Tag = missing
	})
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		s.versions(ctx, g, "stepped", kubernetes136, kubernetes136)
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.must(s.env.Management.HoldUpgrade(s.Context(), s.key("stepped"), true))
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.RefsByKubernetesVersion[0].Ref.Tag = "2.0.0" })
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		s.versions(ctx, g, "stepped", kubernetes137, kubernetes136)
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.testWorkersWait(helmOp)
}

// testWorkersWait finishes the last step of an upgrade while the release is not ready. The workers wait for it.
func (s *scenario) testWorkersWait(helmOp *addonsv1.HelmOp) {
	s.Helper()
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(map[string]any{"greeting": 5}) })
	s.child(helmOp, "stepped", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(conditions.IsTrue(child, addonsv1.ReadyCondition)).To(gomega.BeFalse())
	})
	s.must(s.env.Management.FinishStep(s.Context(), s.key("stepped")))
	s.eventuallyCluster("stepped", func(g gomega.Gomega, cluster *clusterv1.Cluster) {
		g.Expect(conditions.GetMessage(cluster, clusterv1.ClusterTopologyReconciledCondition)).To(
			gomega.ContainSubstring("BeforeWorkersUpgrade"))
	})
	s.Consistently(func(g gomega.Gomega) {
		g.Expect(s.workersVersion(s.Context(), g, "stepped")).To(gomega.Equal(kubernetes134))
	}).WithTimeout(10 * time.Second).Should(gomega.Succeed())
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(nil) })
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.workersVersion(ctx, g, "stepped")).To(gomega.Equal(kubernetes137))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.expectNoWarnings("stepped")
}

func testExtensionTimesOut(s *scenario) {
	s.chainCluster("late", "", func(h *addonsv1.HelmOp) {
		h.Spec.BeforeClusterUpgrade.Timeout.Duration = 15 * time.Second
		h.Spec.RefsByKubernetesVersion[1].Ref.Tag = "9.9.9"
	})
	s.must(s.env.Management.Upgrade(s.Context(), s.key("late"), kubernetes136))
	s.eventuallyVersion("late", kubernetes136)
	// On a slow machine, the first step times out, too: its text names both versions.
	s.eventuallyEventText("Cluster", "late", corev1.EventTypeWarning, addonsv1.ClusterUpgradeReleasedEvent,
		fmt.Sprintf("The upgrade to %s was held for 15s", kubernetes136))
}
