// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const slowNamespace = "slow-system"

// shortLease makes another manager take over from a killed one within seconds, not a minute. With it, a manager also
// exits after some seconds without a response of the API server, and nothing restarts the manager in these tests. So a
// manager has it only if the test kills the manager and keeps its lease, or waits for a multiple of the duration.
var shortLease = []string{
	"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=12s", "--leader-elect-retry-period=2s",
}

// slowRelease is a release of the chart slow, whose actions run until the test ends them.
type slowRelease struct {
	*workload

	helmOp *addonsv1.HelmOp
}

// TestManagerRestartContinuesActions stops and kills managers while they install, upgrade and uninstall. The next
// manager continues at once, without another revision.
func TestManagerRestartContinuesActions(t *testing.T) {
	begin(t)
	// A rendering must not reach its limit before the manager is killed, also while the machine is full.
	env := ownEnvironment(t, environment.Options{ManagerArgs: []string{"--render-cpu=5m"}})
	s := newScenarioIn(t, env)
	var w *workload
	s.step("killed, and a Cluster is re-created", func(s *scenario) { w = s.recreatedWhileManagerIsDown("one") })
	slow := func(s *scenario, name string, hooks ...any) *slowRelease {
		return w.in(s).newSlowRelease(name, hooks...)
	}
	s.step("killed during an installation", func(s *scenario) { slow(s, "install", "pre-install").killedDuringInstall() })
	s.step("killed during an upgrade", func(s *scenario) { slow(s, "upgrade").killedDuringUpgrade() })
	s.step("killed during an uninstallation", func(s *scenario) { slow(s, "uninstall").killedDuringUninstall() })
	s.step("killed, and the values change",
		func(s *scenario) { slow(s, "changed", "pre-install").killedThenChanged() })
	s.step("killed, and the HelmOp is deleted",
		func(s *scenario) { slow(s, "deleted", "pre-install").killedThenDeleted() })
	s.step("killed during a rendering", func(s *scenario) { w.in(s).killedDuringRendering() })
	s.step("stopped during an installation", func(s *scenario) { slow(s, "graceful", "pre-install").stopped() })
}

// newSlowRelease creates a HelmOp with the chart slow. The given hooks wait.
func (w *workload) newSlowRelease(name string, hooks ...any) *slowRelease {
	s := w.scenario
	k := &slowRelease{workload: w, helmOp: s.newHelmOp(name, forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Source = s.env.Source("charts/"+environment.ChartSlow, addonsv1.ArtifactReference{Tag: "1.0.0"})
		h.Spec.Release.Namespace = slowNamespace
		h.Spec.Values = slowValues("one", hooks...)
	})}
	s.create(k.helmOp)
	return k
}

func slowValues(text string, hooks ...any) *apiextensionsv1.JSON {
	return rawJSON(map[string]any{"greeting": text, "hooks": append([]any{}, hooks...)})
}

// killedDuringInstall expects exactly one revision. The next manager waits until the lease of the killed one expires.
func (k *slowRelease) killedDuringInstall() {
	held := k.eventuallyHeld("1 pending-install")
	k.scenario.must(k.manager().Kill())
	k.restart(held)
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 1)
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name, "1 deployed")
	k.expectText("one")
	k.scenario.eventuallyEvent(k.helmOp, addonsv1.RecoveredEvent)
	k.expectUntouched()
}

func (k *slowRelease) killedDuringUpgrade() {
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 1)
	k.setText("two", "pre-upgrade")
	held := k.eventuallyHeld("1 deployed", "2 pending-upgrade")
	k.kill()
	k.restart(held)
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 2)
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name, "1 superseded", "2 deployed")
	k.expectText("two")
	k.expectUntouched()
}

func (k *slowRelease) killedDuringUninstall() {
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 1)
	k.setText("two", "pre-delete")
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 2)
	k.scenario.remove(k.helmOp)
	held := k.eventuallyHeld("1 superseded", "2 uninstalling")
	k.kill()
	k.restart(held)
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name)
	k.scenario.eventuallyGone(k.helmOp)
	k.expectNoText()
}

// killedThenChanged changes the values while no manager runs.
func (k *slowRelease) killedThenChanged() {
	k.eventuallyHeld("1 pending-install")
	k.kill()
	k.setText("two")
	k.start()
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 2)
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name, "1 failed", "2 deployed")
	k.expectText("two")
	k.expectUntouched()
}

// killedThenDeleted deletes the HelmOp while no manager runs.
func (k *slowRelease) killedThenDeleted() {
	k.eventuallyHeld("1 pending-install")
	k.kill()
	k.scenario.remove(k.helmOp)
	k.start()
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name)
	k.scenario.eventuallyGone(k.helmOp)
	k.expectNoText()
}

// killedDuringRendering kills managers while they render new values of an installed chart. The next manager must wait,
// longer after each kill, and the release must not count as failed. Other values must not wait.
func (w *workload) killedDuringRendering() {
	s := w.scenario
	_, err := s.env.Registry.PushChart(s.Context(), "charts/rounds", "1.0.0", registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: rounds\nversion: 1.0.0\n",
		"templates/a.yaml": "{{ range until (int .Values.rounds) }}{{ range until 100000 }}{{ end }}{{ end }}" +
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rounds}\n",
	}))
	s.must(err)
	rounds := func(n int) func(*addonsv1.HelmOp) {
		return func(h *addonsv1.HelmOp) { h.Spec.Values = rawJSON(map[string]any{"rounds": n}) }
	}
	helmOp := s.newHelmOp("rounds", forAll, s.from("charts/rounds", addonsv1.ArtifactReference{Tag: "1.0.0"}), rounds(1),
		func(h *addonsv1.HelmOp) { h.Spec.Release.Namespace = slowNamespace })
	s.create(helmOp)
	w.eventuallyReleased(helmOp, slowNamespace, helmOp.Name, 1)
	for try := 1; ; try++ {
		update(s, helmOp, rounds(100000+try))
		// The last wait is twice as long as in the try before.
		end := w.killRendering(helmOp, try+1)
		update(s, helmOp, rounds(1+try))
		w.eventuallyReleased(helmOp, slowNamespace, helmOp.Name, 1+try)
		child := s.child(helmOp, "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Status.Preparation).To(gomega.BeNil())
		})
		// On a full machine, the wait may end before the other values are installed.
		if deployed := child.Status.Release.LastDeployed.Time; deployed.Before(end) || try == 3 {
			s.Expect(deployed).To(gomega.BeTemporally("<", end))
			break
		}
	}
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
}

// killRendering kills managers that render a release until this number of next managers have waited, and returns when
// the last wait ends. On a full machine, a manager may start after the end of the wait, and render at once. The next
// wait is then twice as long.
func (w *workload) killRendering(helmOp *addonsv1.HelmOp, waits int) time.Time {
	s := w.scenario
	s.Helper()
	var end time.Time
	for count := int32(1); waits > 0; count++ {
		s.Expect(count).To(gomega.BeNumerically("<=", 6), "kills")
		s.child(helmOp, "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Status.Preparation).To(gomega.HaveField("Count", count))
		})
		s.replaceManager()
		child := s.child(helmOp, "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Status.Failures).To(gomega.BeZero())
			g.Expect(child.Status.Preparation).NotTo(gomega.BeNil())
			if child.Status.Preparation.Count == count {
				g.Expect(conditions.GetMessage(child, addonsv1.ReadyCondition)).To(
					gomega.ContainSubstring("The former manager stopped"), "count %d", count)
				g.Expect(child.Status.NextTryAt.Sub(child.Status.Preparation.StartedAt.Time)).To(
					gomega.BeNumerically(">=", model.Backoff(int(count), 0)), "count %d", count)
			} else {
				g.Expect(child.Status.Preparation.Count).To(gomega.Equal(count + 1))
			}
		})
		if child.Status.Preparation.Count == count {
			end = child.Status.NextTryAt.Time
			waits--
		}
	}
	return end
}

// killManager kills the manager that was started last, and deletes its lease.
func (s *scenario) killManager() {
	s.Helper()
	managers := s.env.Managers()
	s.must(managers[len(managers)-1].Kill())
	s.remove(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: environment.Namespace, Name: leaseName}})
}

// replaceManager kills the running manager and starts another one, which becomes the leader at once.
func (s *scenario) replaceManager() {
	s.Helper()
	s.killManager()
	_, err := s.env.StartManager(s.Context())
	s.must(err)
}

// stopped stops the manager as a kubelet does. The manager finishes the action that it has started.
func (k *slowRelease) stopped() {
	s := k.scenario
	held := k.eventuallyHeld("1 pending-install")
	manager := k.manager()
	s.must(manager.Signal(syscall.SIGTERM))
	s.Consistently(manager.Running).WithContext(s.Context()).Should(gomega.BeTrue(), "the manager has not waited")
	k.complete(held)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(manager.Wait(ctx))
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 1)
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name, "1 deployed")

	// The manager has released the lease, so that the next one need not wait until the lease expires.
	k.start()
	s.eventually(k.helmOp, ready(1))
	k.expectUntouched()
	s.remove(k.helmOp)
	s.eventuallyGone(k.helmOp)
	k.expectNoText()
}

// setText changes the values.
func (k *slowRelease) setText(text string, hooks ...any) {
	k.scenario.Helper()
	update(k.scenario, k.helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = slowValues(text, hooks...) })
}

// eventuallyHeld waits until the release has these revisions and its hook's Job exists, and returns the Job's UID.
func (k *slowRelease) eventuallyHeld(revisions ...string) types.UID {
	k.scenario.Helper()
	k.workload.eventuallyRevisions(slowNamespace, k.helmOp.Name, revisions...)
	return k.eventuallyJob("")
}

// eventuallyJob waits for a Job of the hook that is not the given one.
func (k *slowRelease) eventuallyJob(not types.UID) types.UID {
	k.scenario.Helper()
	return k.workload.eventuallyJob(slowNamespace, k.helmOp.Name, not).UID
}

// complete completes the Job of the hook.
func (k *slowRelease) complete(uid types.UID) {
	k.scenario.Helper()
	job := &batchv1.Job{}
	k.scenario.must(k.Get(k.scenario.Context(), client.ObjectKey{Namespace: slowNamespace, Name: k.helmOp.Name}, job))
	k.scenario.Expect(job.UID).To(gomega.Equal(uid))
	k.completeJob(job)
}

// eventuallyJob waits for a Job that has not the given UID.
func (w *workload) eventuallyJob(namespace, name string, not types.UID) *batchv1.Job {
	s := w.scenario
	s.Helper()
	job := &batchv1.Job{}
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		*job = batchv1.Job{}
		g.Expect(w.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job)).To(gomega.Succeed())
		g.Expect(job.UID).NotTo(gomega.Equal(not), "the Job is still the old one")
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return job
}

// completeJob sets the status of a Job as the Job controller does when its Pod has succeeded.
func (w *workload) completeJob(job *batchv1.Job) {
	w.scenario.Helper()
	now := metav1.Now()
	job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}}
	w.scenario.must(w.Status().Update(w.scenario.Context(), job))
}

// manager returns the manager that was started last.
func (k *slowRelease) manager() *environment.Manager {
	managers := k.scenario.env.Managers()
	return managers[len(managers)-1]
}

// kill kills the manager, and deletes its lease, so that the next one becomes the leader at once.
func (k *slowRelease) kill() {
	k.scenario.Helper()
	k.scenario.killManager()
}

func (k *slowRelease) start() {
	k.scenario.Helper()
	_, err := k.scenario.env.StartManager(k.scenario.Context())
	k.scenario.must(err)
}

// restart starts a manager, which must continue the action of the previous manager before Helm's timeout ends it. It
// then completes the Job.
func (k *slowRelease) restart(held types.UID) {
	s := k.scenario
	s.Helper()
	started := time.Now()
	k.start()
	taken := k.eventuallyJob(held)
	s.Logf("taken up %s after the start of the manager", time.Since(started).Round(time.Millisecond))
	k.complete(taken)
}

func (k *slowRelease) expectText(text string) {
	k.scenario.Helper()
	data, err := k.hello(k.scenario.Context(), slowNamespace, k.helmOp.Name)
	k.scenario.must(err)
	k.scenario.Expect(data).To(gomega.HaveKeyWithValue("greeting", text))
}

func (k *slowRelease) expectNoText() {
	k.scenario.Helper()
	data, err := k.hello(k.scenario.Context(), slowNamespace, k.helmOp.Name)
	k.scenario.must(err)
	k.scenario.Expect(data).To(gomega.BeNil())
}
