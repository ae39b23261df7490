// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// Versions that control planes report in this test.
const (
	kubernetes135 = "v1.35.4"
	kubernetes136 = "v1.36.3"
)

// upgradeHoldIs checks the annotation by which a HelmOp holds upgrades of a Cluster. The value is empty without an
// annotation.
func upgradeHoldIs(helmOp string, want types.GomegaMatcher) func(gomega.Gomega, *clusterv1.Cluster) {
	return func(g gomega.Gomega, cluster *clusterv1.Cluster) {
		found := ""
		for key, value := range cluster.Annotations {
			if strings.HasPrefix(key, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix+"/helmop-"+helmOp+"-") {
				found = value
			}
		}
		g.Expect(found).To(want, "annotations %v", cluster.Annotations)
	}
}

// expectVersion checks the desired and the reported version of the control plane of a Cluster.
func (s *scenario) expectVersion(ctx context.Context, g gomega.Gomega, cluster, version string) {
	controlPlane, err := s.env.Management.ControlPlane(ctx, s.key(cluster))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect([]string{controlPlane.Spec.Version, controlPlane.Status.Version}).To(gomega.Equal([]string{version, version}))
}

func (s *scenario) eventuallyVersion(cluster, version string) {
	s.Helper()
	s.Eventually(func(g gomega.Gomega,
		ctx context.Context) {
		s.expectVersion(ctx, g, cluster, version)
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// classCluster creates a HelmOp that holds upgrades, and a Cluster of the class "class" with the same name. It waits
// until both are ready for an upgrade. The log has the annotations of the Cluster since then.
func (s *scenario) classCluster(name, tagFor136 string, timeout time.Duration) (*workload, *addonsv1.HelmOp, *holdLog) {
	s.Helper()
	helmOp := s.newHelmOp(name, func(h *addonsv1.HelmOp) {
		h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{Timeout: metav1.Duration{Duration: timeout}}
		h.Spec.RefsByKubernetesVersion = []addonsv1.KubernetesVersionReference{
			{KubernetesVersion: ">=1.36", Ref: addonsv1.ArtifactReference{Tag: tagFor136}},
		}
	})
	s.create(helmOp)
	_, err := s.env.Management.CreateClassCluster(s.Context(), "class", testbed.ClusterOptions{
		Namespace: s.namespace, Name: name, Version: kubernetes135, Labels: map[string]string{addonsLabel: name},
		PodCIDRs: []string{"10.1.0.0/16"},
	})
	s.must(err)
	log := s.watchHolds(name)
	w := s.workload(name)
	w.eventuallyReleased(helmOp, releaseNamespace, name, 1)
	s.eventuallyCluster(name, upgradeHoldIs(name, gomega.Equal(kubernetes135)), created)
	return w, helmOp, log
}

// created checks that Cluster API has finished the creation of a Cluster. Before, its webhooks would refuse upgrades,
// but they are not registered in this test.
func created(g gomega.Gomega, cluster *clusterv1.Cluster) {
	g.Expect(cluster.Annotations).NotTo(gomega.HaveKey(runtimev1.PendingHooksAnnotation))
	g.Expect(conditions.IsTrue(cluster, clusterv1.ClusterTopologyReconciledCondition)).To(gomega.BeTrue())
}

// holdLog records the annotations of a Cluster since its control plane serves. Before, there is nothing to upgrade.
type holdLog struct {
	mu     sync.Mutex
	served bool
	// without are the states in which the Cluster had no annotation of the HelmOp, neither for a hold nor for a released
	// upgrade.
	without []string
	// holds are the values of the annotation for a hold.
	holds []string
}

// watchHolds starts to watch a Cluster.
func (s *scenario) watchHolds(name string) *holdLog {
	s.Helper()
	log := &holdLog{}
	s.follow(&clusterv1.ClusterList{}, func(event watch.Event) {
		if cluster, ok := event.Object.(*clusterv1.Cluster); ok && cluster.Name == name {
			log.add(cluster)
		}
	})
	return log
}

func (l *holdLog) add(cluster *clusterv1.Cluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served = l.served || conditions.IsTrue(cluster, clusterv1.ClusterControlPlaneInitializedCondition)
	if !l.served {
		return
	}
	for key, value := range cluster.Annotations {
		switch prefix, name, _ := strings.Cut(key, "/"); {
		case !strings.HasPrefix(name, "helmop-"):
		case prefix == clusterv1.BeforeClusterUpgradeHookAnnotationPrefix:
			l.holds = append(l.holds, value)
			return
		case prefix == addonsv1.UpgradeReleasedAnnotationPrefix:
			return
		}
	}
	l.without = append(l.without, fmt.Sprintf("at %s: %v", cluster.ResourceVersion, cluster.Annotations))
}

// expectKept checks that the Cluster always had an annotation of the HelmOp.
func (l *holdLog) expectKept(s *scenario) {
	s.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Expect(l.served).To(gomega.BeTrue())
	s.Expect(l.without).To(gomega.BeEmpty(), "the Cluster had no hold")
}

// expectNotCountedBefore checks that no time before a given time has counted for the timeout of a hold.
func (l *holdLog) expectNotCountedBefore(s *scenario, began time.Time) {
	s.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, hold := range l.holds {
		// While the time does not count, the value has the time that has counted before.
		if _, used, isSuspended := strings.Cut(hold, " used "); isSuspended {
			s.Expect(used).To(gomega.Equal("0s"), hold)
		} else if _, since := clusterlife.HeldUpgrade(hold); !since.IsZero() {
			s.Expect(since).To(gomega.BeTemporally(">=", began.Truncate(time.Second)), hold)
		}
	}
}

// TestClusterUpgradeWaitsForRelease upgrades Clusters of a ClusterClass. Their releases hold the upgrade by Cluster
// API's own annotation.
func TestClusterUpgradeWaitsForRelease(t *testing.T) {
	s := newScenario(t)
	s.must(s.env.Management.CreateClass(s.Context(), testbed.ClassOptions{Namespace: s.namespace, Name: "class"}))

	s.part("continues when the release is ready for the new version", func(s *scenario) {
		const missing = "9.9.9"
		w, helmOp, log := s.classCluster("held", missing, 30*time.Minute)
		s.must(s.env.Management.Upgrade(s.Context(), s.key("held"), kubernetes136))
		s.eventuallyCluster("held", upgradeHoldIs("held", gomega.HavePrefix(kubernetes136+" since ")))
		s.eventuallyEventText("Cluster", "held", corev1.EventTypeNormal, addonsv1.ClusterUpgradeHeldEvent)
		s.Consistently(func(g gomega.Gomega,
			ctx context.Context) {
			s.expectVersion(ctx, g, "held", kubernetes135)
		}).WithContext(s.Context()).Should(gomega.Succeed())
		w.eventuallyRevisions(releaseNamespace, "held", "1 deployed")

		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.RefsByKubernetesVersion[0].Ref.Tag = "1.1.0" })
		s.eventuallyEventText("Cluster", "held", corev1.EventTypeNormal, addonsv1.ClusterUpgradeReleasedEvent)
		// The release is upgraded before the Cluster.
		w.eventuallyRevisions(releaseNamespace, "held", "1 superseded", "2 deployed")
		s.Expect(s.child(helmOp, "held").Spec.KubernetesVersion).To(gomega.Equal(kubernetes136))
		s.eventuallyVersion("held", kubernetes136)
		s.eventuallyCluster("held", upgradeHoldIs("held", gomega.Equal(kubernetes136)))
		w.eventuallyRevisions(releaseNamespace, "held", "1 superseded", "2 deployed")
		s.eventually(helmOp, ready(1))
		log.expectKept(s)

		s.remove(helmOp)
		s.eventuallyGone(helmOp)
		s.eventuallyCluster("held", upgradeHoldIs("held", gomega.BeEmpty()))
	})
	s.part("waits for maintenance, which does not count for the timeout", func(s *scenario) {
		w, helmOp, log := s.classCluster("vetoed", "1.1.0", 15*time.Second)
		s.annotateCluster("vetoed", addonsv1.MaintenanceVetoAnnotation, "quarter end")
		s.must(s.env.Management.Upgrade(s.Context(), s.key("vetoed"), kubernetes136))
		s.eventuallyCluster("vetoed", upgradeHoldIs("vetoed", gomega.HavePrefix(kubernetes136+" since ")))
		note := s.eventuallyEventText("Cluster", "vetoed", corev1.EventTypeNormal, addonsv1.ClusterUpgradeHeldEvent)
		s.Expect(note).To(gomega.ContainSubstring("the time until it may be changed does not count"))
		s.Consistently(func(g gomega.Gomega, ctx context.Context) {
			s.expectVersion(ctx, g, "vetoed", kubernetes135)
		}).WithContext(s.Context()).WithTimeout(20 * time.Second).Should(gomega.Succeed())
		w.eventuallyRevisions(releaseNamespace, "vetoed", "1 deployed")
		s.eventuallyCluster("vetoed", upgradeHoldIs("vetoed", gomega.HaveSuffix(" used 0s")))
		// A full machine may need longer than the timeout for the upgrade of the release. The release may get the new timeout
		// only after the veto.
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.BeforeClusterUpgrade.Timeout.Duration = 10 * time.Minute })
		ended := time.Now()
		s.annotateCluster("vetoed", addonsv1.MaintenanceVetoAnnotation, "")
		note = s.eventuallyEventText("Cluster", "vetoed", corev1.EventTypeNormal, addonsv1.ClusterUpgradeReleasedEvent)
		s.Expect(note).To(gomega.ContainSubstring("the release is ready for it"))
		s.eventuallyVersion("vetoed", kubernetes136)
		w.eventuallyRevisions(releaseNamespace, "vetoed", "1 superseded", "2 deployed")
		s.eventually(helmOp, ready(1))
		log.expectKept(s)
		log.expectNotCountedBefore(s, ended)
	})
	s.part("continues after the timeout in any case", func(s *scenario) {
		_, helmOp, log := s.classCluster("late", "9.9.9", 5*time.Second)
		s.must(s.env.Management.Upgrade(s.Context(), s.key("late"), kubernetes136))
		s.eventuallyVersion("late", kubernetes136)
		note := s.eventuallyEventText("Cluster", "late", corev1.EventTypeWarning, addonsv1.ClusterUpgradeReleasedEvent)
		s.Expect(note).To(gomega.ContainSubstring("was held for 5s"))
		s.eventuallyEventText("HelmOp", "late", corev1.EventTypeWarning, addonsv1.ClusterUpgradeReleasedEvent)
		// The hold for the next upgrade.
		s.eventuallyCluster("late", upgradeHoldIs("late", gomega.Equal(kubernetes136)))
		s.Expect(s.child(helmOp, "late").Spec.Artifact.Version).To(gomega.Equal("1.0.0"))
		// Cluster API has finished the upgrade, and has removed its annotations.
		s.eventuallyCluster("late", upgradeHoldIs("late", gomega.Equal(kubernetes136)), created,
			func(g gomega.Gomega, cluster *clusterv1.Cluster) {
				g.Expect(cluster.Annotations).NotTo(gomega.HaveKey(clusterv1.ClusterTopologyUpgradeStepAnnotation))
			})
		log.expectKept(s)
	})
}
