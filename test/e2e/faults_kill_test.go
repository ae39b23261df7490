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
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
)

const slowNamespace = "slow-system"

// restartTime is how soon after its start a manager must be at work on what its predecessor left. It includes the wait
// for the lease of one that was killed, see shortLease.
const restartTime = 30 * time.Second

// shortLease lets a manager take over soon from one that was killed.
var shortLease = []string{
	"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=500ms",
}

// killScene is a release of the chart slow, whose actions are under way until the scene ends them.
type killScene struct {
	*workload

	helmOp *addonsv1.HelmOp
}

// TestManagerEnds ends managers while they install, upgrade and uninstall. The next takes up what was left, at once and
// without another revision.
func TestManagerEnds(t *testing.T) {
	beginFirst(t)
	env := ownEnvironment(t, environment.Options{ManagerArgs: shortLease})
	s := newScenarioIn(t, env)
	var w *workload
	s.step("killed, and a Cluster is created anew", func(s *scenario) { w = s.createdAnewUnseen("one") })
	scene := func(s *scenario, name string, hooks ...any) *killScene {
		return w.in(s).newKillScene(name, hooks...)
	}
	s.step("killed during an installation", func(s *scenario) { scene(s, "install", "pre-install").killedDuringInstall() })
	s.step("killed during an upgrade", func(s *scenario) { scene(s, "upgrade").killedDuringUpgrade() })
	s.step("killed during an uninstallation", func(s *scenario) { scene(s, "uninstall").killedDuringUninstall() })
	s.step("killed, and something else is wanted",
		func(s *scenario) { scene(s, "changed", "pre-install").killedThenChanged() })
	s.step("killed, and nothing is wanted", func(s *scenario) { scene(s, "deleted", "pre-install").killedThenDeleted() })
	s.step("asked to end during an installation", func(s *scenario) { scene(s, "graceful", "pre-install").askedToEnd() })
}

// newKillScene creates a HelmOp with the chart slow, whose given hooks wait.
func (w *workload) newKillScene(name string, hooks ...any) *killScene {
	s := w.scenario
	k := &killScene{workload: w, helmOp: s.newHelmOp(name, forAll, func(h *addonsv1.HelmOp) {
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

// killedDuringInstall expects the one revision that the user wanted.
func (k *killScene) killedDuringInstall() {
	held := k.eventuallyHeld("1 pending-install")
	k.kill()
	k.restart(held)
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 1)
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name, "1 deployed")
	k.expectText("one")
	k.scenario.eventuallyEvent(k.helmOp, addonsv1.RecoveredEvent)
	k.expectUntouched()
}

func (k *killScene) killedDuringUpgrade() {
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 1)
	k.want("two", "pre-upgrade")
	held := k.eventuallyHeld("1 deployed", "2 pending-upgrade")
	k.kill()
	k.restart(held)
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 2)
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name, "1 superseded", "2 deployed")
	k.expectText("two")
	k.expectUntouched()
}

func (k *killScene) killedDuringUninstall() {
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 1)
	k.want("two", "pre-delete")
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
func (k *killScene) killedThenChanged() {
	k.eventuallyHeld("1 pending-install")
	k.kill()
	k.want("two")
	k.start()
	k.eventuallyReleased(k.helmOp, slowNamespace, k.helmOp.Name, 2)
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name, "1 failed", "2 deployed")
	k.expectText("two")
	k.expectUntouched()
}

// killedThenDeleted deletes the HelmOp while no manager runs.
func (k *killScene) killedThenDeleted() {
	k.eventuallyHeld("1 pending-install")
	k.kill()
	k.scenario.remove(k.helmOp)
	k.start()
	k.eventuallyRevisions(slowNamespace, k.helmOp.Name)
	k.scenario.eventuallyGone(k.helmOp)
	k.expectNoText()
}

// askedToEnd asks the manager to end as a kubelet does. It brings to its end what it has begun.
func (k *killScene) askedToEnd() {
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

	// It has given the lease back: the next need not wait for its end.
	k.start()
	s.eventually(k.helmOp, ready(1))
	k.expectUntouched()
	s.remove(k.helmOp)
	s.eventuallyGone(k.helmOp)
	k.expectNoText()
}

// want changes the values.
func (k *killScene) want(text string, hooks ...any) {
	k.scenario.Helper()
	update(k.scenario, k.helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = slowValues(text, hooks...) })
}

// eventuallyHeld waits until the release has these revisions and its hook's Job is there, and returns the Job's UID.
func (k *killScene) eventuallyHeld(revisions ...string) types.UID {
	k.scenario.Helper()
	k.workload.eventuallyRevisions(slowNamespace, k.helmOp.Name, revisions...)
	return k.eventuallyJob("")
}

// eventuallyJob waits for a Job of the hook that is not the given one.
func (k *killScene) eventuallyJob(not types.UID) types.UID {
	s := k.scenario
	s.Helper()
	job := &batchv1.Job{}
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		*job = batchv1.Job{}
		g.Expect(k.Get(ctx, client.ObjectKey{Namespace: slowNamespace, Name: k.helmOp.Name}, job)).To(gomega.Succeed())
		g.Expect(job.UID).NotTo(gomega.Equal(not), "the Job is still the old one")
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return job.UID
}

// complete does what the Job controller does for a Job whose pod has succeeded.
func (k *killScene) complete(uid types.UID) {
	k.scenario.Helper()
	job := &batchv1.Job{}
	k.scenario.must(k.Get(k.scenario.Context(), client.ObjectKey{Namespace: slowNamespace, Name: k.helmOp.Name}, job))
	k.scenario.Expect(job.UID).To(gomega.Equal(uid))
	now := metav1.Now()
	job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}}
	k.scenario.must(k.Status().Update(k.scenario.Context(), job))
}

// manager is the one that was started last.
func (k *killScene) manager() *environment.Manager {
	managers := k.scenario.env.Managers()
	return managers[len(managers)-1]
}

func (k *killScene) kill() {
	k.scenario.Helper()
	k.scenario.must(k.manager().Kill())
}

func (k *killScene) start() {
	k.scenario.Helper()
	_, err := k.scenario.env.StartManager(k.scenario.Context())
	k.scenario.must(err)
}

// restart starts a manager, which must take up soon what waits for the Job that its predecessor made, and lets it end.
func (k *killScene) restart(held types.UID) {
	s := k.scenario
	s.Helper()
	started := time.Now()
	k.start()
	taken := k.eventuallyJob(held)
	s.Logf("taken up %s after the start of the manager", time.Since(started).Round(time.Millisecond))
	s.Expect(time.Since(started)).To(gomega.BeNumerically("<", restartTime))
	k.complete(taken)
}

func (k *killScene) expectText(text string) {
	k.scenario.Helper()
	data, err := k.hello(k.scenario.Context(), slowNamespace, k.helmOp.Name)
	k.scenario.must(err)
	k.scenario.Expect(data).To(gomega.HaveKeyWithValue("greeting", text))
}

func (k *killScene) expectNoText() {
	k.scenario.Helper()
	data, err := k.hello(k.scenario.Context(), slowNamespace, k.helmOp.Name)
	k.scenario.must(err)
	k.scenario.Expect(data).To(gomega.BeNil())
}
