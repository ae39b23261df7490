// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// helmUser is a user with Helm and the kubeconfig of a workload cluster.
type helmUser struct {
	scenario  *scenario
	config    *action.Configuration
	chart     *chart.Chart
	namespace string
}

func (w *workload) helmUser() *helmUser { return w.helmUserIn(releaseNamespace) }

// helmUserIn returns a user whose releases are in a namespace.
func (w *workload) helmUserIn(namespace string) *helmUser {
	s := w.scenario
	s.Helper()
	kubeconfig, err := w.server.Kubeconfig()
	s.must(err)
	file := filepath.Join(s.TempDir(), "kubeconfig")
	s.must(os.WriteFile(file, kubeconfig, 0o600))
	settings := cli.New()
	settings.KubeConfig = file
	settings.SetNamespace(namespace)
	config := new(action.Configuration)
	s.must(config.Init(settings.RESTClientGetter(), namespace, "secret", s.Logf))
	return &helmUser{scenario: s, config: config, chart: s.loadChart(environment.ChartHello), namespace: namespace}
}

// loadChart loads a test chart from its folder.
func (s *scenario) loadChart(name string) *chart.Chart {
	s.Helper()
	loaded, err := loader.Load(s.chartFolder(name))
	s.must(err)
	return loaded
}

// chartFolder returns the folder of a test chart.
func (s *scenario) chartFolder(name string) string {
	s.Helper()
	root, err := binaries.RepositoryRoot()
	s.must(err)
	return filepath.Join(root, "test", "charts", name)
}

func (h *helmUser) values(text string) map[string]any {
	return map[string]any{"cluster": "by hand", "podCIDR": "192.168.0.0/16", "greeting": text}
}

// install runs "helm install --create-namespace".
func (h *helmUser) install(name string) {
	h.scenario.Helper()
	h.installChart(name, h.chart, h.values("by hand"))
}

// installChart runs "helm install --create-namespace" with another chart.
func (h *helmUser) installChart(name string, chrt *chart.Chart, values map[string]any) {
	h.scenario.Helper()
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, h.namespace, true
	_, err := install.RunWithContext(h.scenario.Context(), chrt, values)
	h.scenario.must(err)
}

// upgrade runs "helm upgrade".
func (h *helmUser) upgrade(name string) {
	h.scenario.Helper()
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace = h.namespace
	_, err := upgrade.RunWithContext(h.scenario.Context(), name, h.chart, h.values("by hand"))
	h.scenario.must(err)
}

// rollback runs "helm rollback" to the previous revision.
func (h *helmUser) rollback(name string) {
	h.scenario.Helper()
	h.scenario.must(action.NewRollback(h.config).Run(name))
}

// uninstall runs "helm uninstall".
func (h *helmUser) uninstall(name string) {
	h.scenario.Helper()
	_, err := action.NewUninstall(h.config).Run(name)
	h.scenario.must(err)
}

// TestManualHelmChangesAreReverted changes releases by Helm. HelmOp reverts the changes at its next check.
func TestManualHelmChangesAreReverted(t *testing.T) {
	s := newScenario(t)
	w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	h := w.helmUser()
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	desired := map[string]string{"cluster": "one", "podCIDR": "10.1.0.0/16", "greeting": "hello"}
	byHand := map[string]string{"cluster": "by hand", "greeting": "by hand"}
	w.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)

	h.upgrade("hello")
	w.eventuallyHello(releaseNamespace, "hello", byHand)
	s.nudge(helmOp, "one")
	w.eventuallyReleased(helmOp, releaseNamespace, "hello", 3)
	w.eventuallyHello(releaseNamespace, "hello", desired)

	h.rollback("hello")
	w.eventuallyHello(releaseNamespace, "hello", byHand)
	s.nudge(helmOp, "one")
	w.eventuallyReleased(helmOp, releaseNamespace, "hello", 5)
	w.eventuallyHello(releaseNamespace, "hello", desired)

	h.uninstall("hello")
	w.expectNothing(releaseNamespace, "hello")
	s.nudge(helmOp, "one")
	w.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
	w.eventuallyHello(releaseNamespace, "hello", desired)
	s.eventually(helmOp, ready(1))
	w.expectUntouched()
}

// TestManualUninstallationIsNotTakenOver uninstalls a release by Helm while a hook waits. HelmOp must not run the hook
// again. It installs the release when the uninstallation has ended.
func TestManualUninstallationIsNotTakenOver(t *testing.T) {
	s := newScenario(t)
	w := s.clusters(testbed.ClusterOptions{Name: "one"})[0]
	k := w.newSlowRelease("slow", "pre-delete")
	k.eventuallyReleased(k.helmOp, slowNamespace, "slow", 1)

	uninstall := action.NewUninstall(w.helmUserIn(slowNamespace).config)
	uninstall.Timeout = 10 * time.Minute
	ended := make(chan error, 1)
	go func() {
		_, err := uninstall.Run("slow")
		ended <- err
	}()
	held := k.eventuallyHeld("1 uninstalling")
	s.retry(k.helmOp)
	s.child(k.helmOp, "one", inState("Uninstalling"),
		childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.ReleasePendingReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(conditions.GetMessage(child, addonsv1.ReleasedCondition)).To(
				gomega.ContainSubstring("being uninstalled by the helm command"))
		})
	s.Expect(ended).NotTo(gomega.Receive())
	k.complete(held)
	s.Eventually(ended).WithContext(s.Context()).Should(gomega.Receive(gomega.Not(gomega.HaveOccurred())))
	k.eventuallyRevisions(slowNamespace, "slow", "1 deployed")
	k.eventuallyReleased(k.helmOp, slowNamespace, "slow", 1)
	k.expectText("one")
	s.eventually(k.helmOp, ready(1))
	s.Expect(k.eventuallyJob("")).To(gomega.Equal(held), "the hook ran again")
	k.expectUntouched()
}

// TestForeignRelease installs a release by Helm before a HelmOp with the same release name. HelmOp does not touch the
// release before takeOwnership is set, and not when the HelmOp is deleted.
func TestForeignRelease(t *testing.T) {
	s := newScenario(t)
	w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	h := w.helmUser()
	h.install("hello")
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	refused := func() {
		child := s.child(helmOp, "one",
			childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.ReleaseConflictReason))
		s.eventuallyEvent(child, addonsv1.ReleaseConflictReason)
		s.eventually(helmOp, failure("one", addonsv1.ReleaseConflictReason, "install.takeOwnership"))
		w.eventuallyRevisions(releaseNamespace, "hello", "1 deployed")
		w.eventuallyHello(releaseNamespace, "hello", map[string]string{"greeting": "by hand"})
	}
	refused()
	w.expectUntouched()
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions(releaseNamespace, "hello", "1 deployed")

	helmOp = s.newHelmOp("hello", forAll)
	s.create(helmOp)
	refused()
	take := true
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: &take} })
	w.eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
	w.eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 deployed")
	w.eventuallyHello(releaseNamespace, "hello",
		map[string]string{"cluster": "one", "podCIDR": "10.1.0.0/16", "greeting": "hello"})
	s.eventually(helmOp, ready(1))
	s.Expect(s.child(helmOp, "one").Status.History[0].Reason).To(gomega.Equal("Adopt"))
	w.expectUntouched()
}
