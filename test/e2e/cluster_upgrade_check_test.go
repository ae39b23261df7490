// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// pushBudget pushes a chart whose hook, which never runs, uses a version of an API.
func (s *scenario) pushBudget(version, api string) {
	s.Helper()
	_, err := s.env.Registry.PushChart(s.Context(), "charts/budget", version, registry.ChartFiles(map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: budget\nversion: " + version + "\n",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: budget}\n",
		"templates/test.yaml": "apiVersion: " + api + "\nkind: PodDisruptionBudget\nmetadata:\n  name: budget\n" +
			"  annotations: {helm.sh/hook: pre-rollback}\n",
	}))
	s.must(err)
}

// resultIs checks the reason and the message of a condition; an empty reason means that the condition is absent.
func resultIs(g gomega.Gomega, of conditions.Getter, condition, reason string, message types.GomegaMatcher) {
	g.Expect(conditions.GetReason(of, condition)).To(gomega.Equal(reason), conditions.GetMessage(of, condition))
	if reason != "" {
		g.Expect(conditions.GetMessage(of, condition)).To(message)
	}
}

// TestClusterUpgradeIsChecked checks a release for an upgrade of Kubernetes: first because an annotation requests it,
// then because the upgrade is requested and waits for the check.
func TestClusterUpgradeIsChecked(t *testing.T) {
	s := newScenario(t)
	const name = "checked"
	s.must(s.env.Management.CreateClass(s.Context(), testbed.ClassOptions{Namespace: s.namespace, Name: "class"}))
	s.pushBudget("1.0.0", "policy/v1beta1")
	s.pushBudget("2.0.0", "policy/v1")
	present := s.env.Management.Server.Version()
	running, err := apilifecycle.ParseVersion(present)
	s.must(err)
	minor := fmt.Sprintf("v%d.%d", running.Major, running.Minor+1)
	target := minor + ".0"

	helmOp := s.newHelmOp(name, s.from("charts/budget", addonsv1.ArtifactReference{Tag: "1.0.0"}))
	helmOp.Spec.Values = nil
	helmOp.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{
		Timeout: metav1.Duration{Duration: 30 * time.Minute}, Preflight: addonsv1.UpgradePreflightRequired}
	s.create(helmOp)
	_, err = s.env.Management.CreateClassCluster(s.Context(), "class", testbed.ClusterOptions{Namespace: s.namespace,
		Name: name, Version: present, Labels: map[string]string{addonsLabel: name}, PodCIDRs: []string{"10.1.0.0/16"}})
	s.must(err)
	w := s.workload(name)
	w.eventuallyReleased(helmOp, releaseNamespace, name, 1)
	s.eventuallyCluster(name, upgradeHoldIs(name, gomega.Equal(present)), created)

	release := func(reason string, message types.GomegaMatcher) {
		s.Helper()
		s.child(helmOp, name, func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			resultIs(g, child, addonsv1.KubernetesUpgradeReadyCondition, reason, message)
			g.Expect(conditions.IsTrue(child, addonsv1.ReadyCondition)).To(gomega.BeTrue())
		})
	}
	cluster := func(reason string, message types.GomegaMatcher) {
		s.Helper()
		s.eventuallyCluster(name, func(g gomega.Gomega, cluster *clusterv1.Cluster) {
			resultIs(g, cluster, addonsv1.ClusterUpgradeReadyType, reason, message)
		})
	}
	removed := gomega.SatisfyAll(
		gomega.ContainSubstring("PodDisruptionBudget of policy/v1beta1 is not served since v1.25"),
		gomega.ContainSubstring("set spec.source.ref to a version of the chart that uses policy/v1"))

	// An annotation of the Cluster requests a check.
	s.Expect(conditions.Has(s.child(helmOp, name), addonsv1.KubernetesUpgradeReadyCondition)).To(gomega.BeFalse())
	s.annotateCluster(name, addonsv1.CheckUpgradeAnnotation, minor)
	release(addonsv1.APIRemovedReason, removed)
	cluster(addonsv1.ReleasesNotReadyReason, gomega.HavePrefix("1 of 1 release is not ready for Kubernetes "+minor+
		": HelmOp checked: APIRemoved"))
	note := s.eventuallyEventText("Cluster", name, corev1.EventTypeWarning, addonsv1.KubernetesUpgradeBlockedEvent)
	s.Expect(note).To(removed)

	s.annotateCluster(name, addonsv1.CheckUpgradeAnnotation, "newest")
	release(addonsv1.InvalidKubernetesVersionReason, gomega.ContainSubstring(`"newest" is not a version of Kubernetes`))
	cluster(addonsv1.ReleasesNotCheckedReason, gomega.ContainSubstring("InvalidKubernetesVersion"))
	s.annotateCluster(name, addonsv1.CheckUpgradeAnnotation, running.String())
	release(addonsv1.KubernetesUpgradeReadyReason, gomega.ContainSubstring("already"))
	s.annotateCluster(name, addonsv1.CheckUpgradeAnnotation, "v1.99999999999")
	release(addonsv1.InvalidKubernetesVersionReason, gomega.ContainSubstring("is not a version of Kubernetes"))
	s.annotateCluster(name, addonsv1.CheckUpgradeAnnotation, "v1.3000")
	release(addonsv1.InvalidKubernetesVersionReason, gomega.ContainSubstring("too many minor versions"))
	s.annotateCluster(name, addonsv1.CheckUpgradeAnnotation, "")
	release("", nil)
	cluster("", nil)

	// An upgrade waits until the check finds nothing to do.
	s.must(s.env.Management.Upgrade(s.Context(), s.key(name), target))
	s.eventuallyCluster(name, upgradeHoldIs(name, gomega.HavePrefix(target+" since ")))
	s.eventuallyEventText("Cluster", name, corev1.EventTypeNormal, addonsv1.ClusterUpgradeHeldEvent)
	release(addonsv1.APIRemovedReason, removed)
	cluster(addonsv1.ReleasesNotReadyReason, gomega.ContainSubstring("HelmOp checked: APIRemoved"))
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		s.expectVersion(ctx, g, name, present)
	}).WithContext(s.Context()).Should(gomega.Succeed())

	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "2.0.0" })
	s.eventuallyEventText("Cluster", name, corev1.EventTypeNormal, addonsv1.ClusterUpgradeReleasedEvent)
	w.eventuallyRevisions(releaseNamespace, name, "1 superseded", "2 deployed")
	s.eventuallyVersion(name, target)
	s.eventuallyCluster(name, upgradeHoldIs(name, gomega.Equal(target)))
	release("", nil)
	cluster("", nil)
}
