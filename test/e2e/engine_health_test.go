// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// engine is a workload cluster in which Pods seem to run, for HelmOps with the chart app.
type engine struct {
	*workload
	name string
}

// newEngine starts a scenario with such a cluster. Each part of the scenario has its own HelmOp in its own namespace.
func newEngine(t *testing.T) (*scenario, *workload) {
	t.Helper()
	s := newScenario(t)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		s.pushChart("charts/app", environment.ChartMetadata{Chart: "app", Version: version})
	}
	return s, s.clusters(testbed.ClusterOptions{Name: "one", KwokNodes: 1})[0]
}

// parts runs independent parts on a cluster.
func (s *scenario) parts(w *workload, parts map[string]func(engine)) {
	for name, do := range parts {
		s.part(name, func(s *scenario) { do(engine{workload: w.in(s), name: name}) })
	}
}

// helmOp returns a HelmOp with the chart app and these values.
func (e engine) helmOp(values map[string]any, change ...func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
	helmOp := e.scenario.newHelmOp(e.name, forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Source = e.scenario.env.Source("charts/app", addonsv1.ArtifactReference{Tag: "1.0.0"})
		h.Spec.Release.Namespace = e.name
		h.Spec.Values = rawJSON(values)
		h.Spec.Health = nil
	})
	for _, c := range change {
		c(helmOp)
	}
	return helmOp
}

// set changes the values of a HelmOp.
func (e engine) set(helmOp *addonsv1.HelmOp, values map[string]any) {
	e.scenario.Helper()
	update(e.scenario, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = rawJSON(values) })
}

// becomes waits until the HelmOpRelease of a HelmOp has a condition.
func (e engine) becomes(helmOp *addonsv1.HelmOp, conditionType string, status metav1.ConditionStatus, reason string,
	checks ...func(gomega.Gomega, *addonsv1.HelmOpRelease),
) *addonsv1.HelmOpRelease {
	e.scenario.Helper()
	all := append([]func(gomega.Gomega, *addonsv1.HelmOpRelease){childCondition(conditionType, status, reason)}, checks...)
	return e.scenario.child(helmOp, e.workload.name, all...)
}

// inState expects a state of the release. The conditions of a status are written before the state.
func inState(state string) func(gomega.Gomega, *addonsv1.HelmOpRelease) {
	return func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(child.Status.State).To(gomega.Equal(state))
	}
}

// released waits until the release is deployed at a revision and Ready.
func (e engine) released(helmOp *addonsv1.HelmOp, number int) *addonsv1.HelmOpRelease {
	e.scenario.Helper()
	return e.eventuallyReleased(helmOp, e.name, e.name, number)
}

// history waits until the release has exactly these revisions, the oldest first.
func (e engine) history(want ...string) {
	e.scenario.Helper()
	e.eventuallyRevisions(e.name, e.name, want...)
}

// untouched fails if Helm's storage of the release changes.
func (e engine) untouched() {
	s := e.scenario
	s.Helper()
	before, err := e.revisions(s.Context(), e.name, e.name)
	s.must(err)
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		now, err := e.revisions(ctx, e.name, e.name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(now).To(gomega.Equal(before))
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// healthTimeout sets how long a release may be in progress.
func healthTimeout(d time.Duration) func(*addonsv1.HelmOp) {
	return func(h *addonsv1.HelmOp) {
		h.Spec.Health = &addonsv1.HealthOptions{Timeout: &metav1.Duration{Duration: d}}
	}
}

// rollingBack sets that upgrades are rolled back and tried again, with a number of retries.
func rollingBack(retries int32) func(*addonsv1.HelmOp) {
	return func(h *addonsv1.HelmOp) {
		h.Spec.Upgrade = &addonsv1.UpgradeOptions{Remediation: &addonsv1.UpgradeRemediation{
			Retries: &retries, Strategy: addonsv1.UpgradeRemediationRollback,
		}}
	}
}

// tested runs the chart's tests.
func tested(h *addonsv1.HelmOp) {
	h.Spec.Test = &addonsv1.TestOptions{Mode: addonsv1.TestModeEnabled}
}

// TestHealth checks that a release is Ready when, and as long as, its objects are healthy.
func TestHealth(t *testing.T) {
	s, w := newEngine(t)
	s.parts(w, map[string]func(engine){
		"follows":        engine.healthFollows,
		"timeout":        engine.healthTimeout,
		"disabled":       engine.healthDisabled,
		"checks":         engine.healthChecks,
		"missing":        engine.objectsMissing,
		"unhealthy-back": engine.unhealthyRolledBack,
		"overtaken":      engine.overtakenRolledBack,
		"crash-loop":     engine.crashLoop,
		"image-missing":  engine.imageMissing,
		"job-fails":      engine.jobFails,
		"load-balancer":  engine.loadBalancer,
		"nodes":          engine.nodesComeAndGo,
	})
}

// healthFollows breaks a DaemonSet of a healthy release, and repairs it.
func (e engine) healthFollows() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"daemonSet": true, "hooks": []any{"post-install"}, "test": "pass"},
		healthTimeout(3*time.Second), tested)
	s.create(helmOp)
	e.released(helmOp, 1)
	s.child(helmOp, e.workload.name, inState("InSync"))
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
	e.becomes(helmOp, addonsv1.TestedCondition, metav1.ConditionTrue, addonsv1.TestsSucceededReason,
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Status.Tests).To(gomega.HaveLen(1))
			g.Expect(child.Status.Tests[0].Phase).To(gomega.Equal("Succeeded"))
		})

	e.setPodsReady("follows-daemonset", corev1.ConditionFalse)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.HealthTimeoutReason)
	e.becomes(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.HealthTimeoutReason)
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason))
	e.setPodsReady("follows-daemonset", corev1.ConditionTrue)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
	s.eventually(helmOp, ready(1))
	e.history("1 deployed")
}

// setPodsReady sets the status of the Pods with a label to ready, or not ready.
func (e engine) setPodsReady(app string, status corev1.ConditionStatus) {
	s := e.scenario
	s.Helper()
	pods := &corev1.PodList{}
	s.must(e.List(s.Context(), pods, client.InNamespace(e.name), client.MatchingLabels{"app": app}))
	s.Expect(pods.Items).NotTo(gomega.BeEmpty())
	for i := range pods.Items {
		pod := &pods.Items[i]
		before := pod.DeepCopy()
		for j := range pod.Status.Conditions {
			if pod.Status.Conditions[j].Type == corev1.PodReady {
				pod.Status.Conditions[j].Status = status
			}
		}
		// A Pod disappears if another part of the test removes its node.
		s.must(client.IgnoreNotFound(e.Status().Patch(s.Context(), pod, client.MergeFrom(before))))
	}
}

// healthTimeout installs a release that becomes healthy only after a change of its values.
func (e engine) healthTimeout() {
	helmOp := e.helmOp(map[string]any{"never": true}, healthTimeout(3*time.Second))
	e.scenario.create(helmOp)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.HealthTimeoutReason)
	e.becomes(helmOp, addonsv1.ReleasedCondition, metav1.ConditionTrue, addonsv1.ReleasedReason)
	e.history("1 deployed")
	e.set(helmOp, map[string]any{"never": false})
	e.released(helmOp, 2)
	e.scenario.eventually(helmOp, ready(1))
}

// healthDisabled installs a release that never becomes healthy, with health checks disabled.
func (e engine) healthDisabled() {
	helmOp := e.helmOp(map[string]any{"never": true}, func(h *addonsv1.HelmOp) { h.Spec.Health = withoutHealth() })
	e.scenario.create(helmOp)
	child := e.released(helmOp, 1)
	for _, c := range child.Status.Conditions {
		e.scenario.Expect(c.Type).NotTo(gomega.Equal(addonsv1.HealthyCondition))
	}
}

// objectsMissing deletes a ConfigMap and a Secret, which HelmOp does not watch. A requested retry restores them.
// Nothing else changes.
func (e engine) objectsMissing() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"greeting": "hi"})
	s.create(helmOp)
	e.released(helmOp, 1)
	s.must(e.Delete(s.Context(), e.configMap()))
	s.must(e.Delete(s.Context(), e.secretObject()))
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "once"}
	})
	child := e.released(helmOp, 2)
	s.Expect(child.Status.History[0].Reason).To(gomega.Equal("ObjectsMissing"))
	s.must(e.Get(s.Context(), client.ObjectKeyFromObject(e.configMap()), e.configMap()))
	s.must(e.Get(s.Context(), client.ObjectKeyFromObject(e.secretObject()), e.secretObject()))
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
	e.becomes(helmOp, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason)
	// A retry that finds nothing missing does not create a revision.
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Annotations[addonsv1.RetryRequestedAtAnnotation] = "twice"
	})
	s.child(helmOp, e.workload.name, func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(child.Status.LastRetryRequest).To(gomega.ContainSubstring("twice"))
	})
	e.history("1 superseded", "2 deployed")
}

// healthChecks evaluates an expression for a kind that is otherwise always healthy.
func (e engine) healthChecks() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"greeting": "not yet"}, func(h *addonsv1.HelmOp) {
		h.Spec.Health = &addonsv1.HealthOptions{
			Timeout: &metav1.Duration{Duration: 3 * time.Second},
			Checks: []addonsv1.HealthCheck{{APIVersion: "v1", Kind: "ConfigMap", Current: "self.data.greeting == 'now'",
				Failed: "self.data.greeting == 'never'"}},
		}
	})
	s.create(helmOp)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.HealthTimeoutReason)
	e.set(helmOp, map[string]any{"greeting": "now"})
	e.released(helmOp, 2)
	e.set(helmOp, map[string]any{"greeting": "never"})
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.HealthFailedReason)
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Health.Checks[0].Current = "self.data.(" })
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.InvalidHealthCheckReason)
}

// unhealthyRolledBack checks that an upgrade that does not become healthy is rolled back to the last revision that
// worked.
func (e engine) unhealthyRolledBack() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"greeting": "good"}, healthTimeout(3*time.Second), rollingBack(0))
	s.create(helmOp)
	e.released(helmOp, 1)
	e.set(helmOp, map[string]any{"greeting": "bad", "never": true})
	e.becomes(helmOp, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RetriesExhaustedReason,
		childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.RolledBackReason),
		childMessage("Helm revision 2 was not healthy at "))
	e.history("1 superseded", "2 superseded", "3 deployed")
	e.expectGreetings("good")
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
	e.set(helmOp, map[string]any{"greeting": "better"})
	e.released(helmOp, 4)
	e.expectGreetings("better")
}

// overtakenRolledBack replaces an upgrade before it is healthy. The second upgrade does not become healthy either.
func (e engine) overtakenRolledBack() {
	helmOp := e.helmOp(map[string]any{"greeting": "good"}, healthTimeout(10*time.Minute), rollingBack(0))
	e.scenario.create(helmOp)
	e.released(helmOp, 1)
	e.set(helmOp, map[string]any{"greeting": "hasty", "never": true})
	e.history("1 superseded", "2 deployed")
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionUnknown, addonsv1.HealthProgressingReason,
		inState("InSync"))
	update(e.scenario, helmOp, func(h *addonsv1.HelmOp) {
		healthTimeout(3 * time.Second)(h)
		h.Spec.Values = rawJSON(map[string]any{"greeting": "bad", "never": true})
	})
	e.becomes(helmOp, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RetriesExhaustedReason,
		childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.RolledBackReason))
	e.history("1 superseded", "2 superseded", "3 superseded", "4 deployed")
	e.expectGreetings("good")
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
}

// crashLoop installs a release whose container ends again and again, and corrects it.
func (e engine) crashLoop() {
	helmOp := e.helmOp(map[string]any{"pod": "crash-loop"}, healthTimeout(3*time.Second))
	e.scenario.create(helmOp)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.HealthTimeoutReason,
		e.blames("Deployment"))
	e.set(helmOp, map[string]any{})
	e.released(helmOp, 2)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
}

// blames expects that the condition Healthy names an object of a kind.
func (e engine) blames(kind string) func(gomega.Gomega, *addonsv1.HelmOpRelease) {
	return func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		healthy := conditions.Get(child, addonsv1.HealthyCondition)
		g.Expect(healthy).NotTo(gomega.BeNil())
		g.Expect(healthy.Message).To(gomega.ContainSubstring(kind + " " + e.name + "/" + e.name))
	}
}

// imageMissing upgrades to an image that cannot be pulled. The release is rolled back, and its Pods run all the time.
func (e engine) imageMissing() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"greeting": "good"}, healthTimeout(3*time.Second), rollingBack(0))
	s.create(helmOp)
	e.released(helmOp, 1)
	e.set(helmOp, map[string]any{"greeting": "bad", "pod": "image-missing"})
	e.becomes(helmOp, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RetriesExhaustedReason,
		childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.RolledBackReason))
	e.history("1 superseded", "2 superseded", "3 deployed")
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
}

// jobFails installs a release with a Job that fails: waiting for the timeout would be useless.
func (e engine) jobFails() {
	helmOp := e.helmOp(map[string]any{"job": "fail"}, healthTimeout(10*time.Minute))
	e.scenario.create(helmOp)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.HealthFailedReason, e.blames("Job"))
	e.set(helmOp, map[string]any{"job": "pass"})
	e.released(helmOp, 2)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
}

// loadBalancer installs a Service whose load balancer appears, goes, and appears again. By default, a Service is
// healthy without a load balancer; a check of the HelmOp changes this.
func (e engine) loadBalancer() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"loadBalancer": true}, healthTimeout(3*time.Second), func(h *addonsv1.HelmOp) {
		h.Spec.Health.Checks = []addonsv1.HealthCheck{{APIVersion: "v1", Kind: "Service",
			Current: "self.spec.type != 'LoadBalancer' || has(self.status.loadBalancer.ingress)"}}
	})
	s.create(helmOp)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.HealthTimeoutReason, e.blames("Service"))
	balance := func(ingress ...corev1.LoadBalancerIngress) {
		service := &corev1.Service{}
		s.must(e.Get(s.Context(), client.ObjectKey{Namespace: e.name, Name: e.name + "-balanced"}, service))
		service.Status.LoadBalancer.Ingress = ingress
		s.must(e.Status().Update(s.Context(), service))
	}
	for range 2 {
		balance(corev1.LoadBalancerIngress{IP: "192.0.2.1"})
		e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
		e.becomes(helmOp, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason)
		balance()
		e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.HealthTimeoutReason,
			e.blames("Service"))
	}
	e.history("1 deployed")
}

// nodesComeAndGo adds a node, on which the DaemonSet of a release gets a Pod, and loses the node again. The release
// stays Ready in the end.
func (e engine) nodesComeAndGo() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"daemonSet": true}, healthTimeout(3*time.Second))
	s.create(helmOp)
	e.released(helmOp, 1)
	first := &corev1.Node{}
	s.must(e.Get(s.Context(), client.ObjectKey{Name: "node-0"}, first))
	added := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-added", Labels: first.Labels}}
	added.Labels[corev1.LabelHostname] = added.Name
	// The Pods of other parts must not be lost with the node.
	added.Spec.Taints = []corev1.Taint{{Key: "only-daemons", Effect: corev1.TaintEffectNoSchedule}}
	added.Status.Capacity, added.Status.Allocatable = first.Status.Capacity, first.Status.Allocatable
	s.must(e.Create(s.Context(), added))
	e.scheduled(2)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
	s.must(e.Delete(s.Context(), added))
	e.scheduled(1)
	e.becomes(helmOp, addonsv1.HealthyCondition, metav1.ConditionTrue, addonsv1.HealthyReason)
	e.becomes(helmOp, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason)
	e.history("1 deployed")
}

// scheduled waits until the DaemonSet of the release runs on a number of nodes.
func (e engine) scheduled(nodes int32) {
	s := e.scenario
	s.Helper()
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		set := &appsv1.DaemonSet{}
		g.Expect(e.Get(ctx, client.ObjectKey{Namespace: e.name, Name: e.name}, set)).To(gomega.Succeed())
		g.Expect(set.Status.DesiredNumberScheduled).To(gomega.Equal(nodes))
		g.Expect(set.Status.NumberReady).To(gomega.Equal(nodes))
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// expectGreetings fails unless the release has this text.
func (e engine) expectGreetings(want string) {
	e.scenario.Helper()
	data, err := e.hello(e.scenario.Context(), e.name, e.name)
	e.scenario.must(err)
	e.scenario.Expect(data).To(gomega.HaveKeyWithValue("greeting", want))
}

// TestRemediation checks the actions after failures: retries within a budget, rollbacks, and requested retries.
func TestRemediation(t *testing.T) {
	s, w := newEngine(t)
	s.parts(w, map[string]func(engine){
		"rolled-back":   engine.rolledBack,
		"retried":       engine.retriedOnRequest,
		"reinstalled":   engine.failedInstallUninstalled,
		"tests-fail":    engine.testsFail,
		"tests-ignored": engine.testsIgnored,
		"tests-wait":    engine.testsWait,
	})
}

// rolledBack returns to the last revision that worked after each failed upgrade, and stays there after the last one.
func (e engine) rolledBack() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"greeting": "good"}, rollingBack(1))
	s.create(helmOp)
	e.released(helmOp, 1)
	e.set(helmOp, map[string]any{"greeting": "bad", "broken": true})
	e.becomes(helmOp, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RetriesExhaustedReason)
	e.history("1 superseded", "2 failed", "3 superseded", "4 failed", "5 deployed")
	e.expectGreetings("good")
	child := e.becomes(helmOp, addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.RolledBackReason,
		childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.RolledBackReason), inState("RolledBack"),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Status.Failures).To(gomega.BeEquivalentTo(2))
		})
	s.eventuallyEvent(child, addonsv1.RolledBackEvent)
	s.eventually(helmOp, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Clusters.Stalled).To(gomega.BeEquivalentTo(1))
	})
	e.untouched()
	e.set(helmOp, map[string]any{"greeting": "repaired"})
	e.released(helmOp, 6)
	e.expectGreetings("repaired")
}

// retriedOnRequest requests another try of a stalled release.
func (e engine) retriedOnRequest() {
	s, never := e.scenario, int32(0)
	helmOp := e.helmOp(map[string]any{"broken": true}, func(h *addonsv1.HelmOp) {
		h.Spec.Install = &addonsv1.InstallOptions{Remediation: &addonsv1.InstallRemediation{Retries: &never}}
	})
	s.create(helmOp)
	e.becomes(helmOp, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RetriesExhaustedReason)
	e.history("1 failed")
	for i := 2; i <= 3; i++ {
		update(s, helmOp, func(h *addonsv1.HelmOp) {
			h.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: fmt.Sprint(i)}
		})
		e.becomes(helmOp, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RetriesExhaustedReason,
			func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
				g.Expect(child.Status.LastRetryRequest).To(gomega.HaveSuffix(fmt.Sprint(i)))
				g.Expect(child.Status.Release.Revision).To(gomega.BeEquivalentTo(i))
			})
	}
	e.history("1 failed", "2 failed", "3 failed")
	e.untouched()
}

// failedInstallUninstalled removes the objects of a failed installation before the next try, but keeps the objects of
// the last try.
func (e engine) failedInstallUninstalled() {
	once := int32(1)
	helmOp := e.helmOp(map[string]any{"broken": true}, func(h *addonsv1.HelmOp) {
		h.Spec.Install = &addonsv1.InstallOptions{Remediation: &addonsv1.InstallRemediation{
			Retries: &once, Strategy: addonsv1.InstallRemediationUninstall,
		}}
	})
	e.scenario.create(helmOp)
	e.becomes(helmOp, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RetriesExhaustedReason)
	e.history("1 failed")
	e.set(helmOp, map[string]any{})
	e.released(helmOp, 2)
}

// testsFail runs tests that fail, which keep a release from being Ready.
func (e engine) testsFail() {
	s, never := e.scenario, int32(0)
	helmOp := e.helmOp(map[string]any{"test": "fail"}, tested, func(h *addonsv1.HelmOp) {
		h.Spec.Install = &addonsv1.InstallOptions{Remediation: &addonsv1.InstallRemediation{Retries: &never}}
	})
	s.create(helmOp)
	// The conditions of a status are written before the rest of the status.
	e.becomes(helmOp, addonsv1.TestedCondition, metav1.ConditionFalse, addonsv1.TestsFailedReason,
		childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.TestsFailedReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Status.Tests).To(gomega.HaveLen(1))
			g.Expect(child.Status.Tests[0].Name).To(gomega.Equal("tests-fail-test"))
			g.Expect(child.Status.Tests[0].Phase).To(gomega.Equal("Failed"))
		})
	e.history("1 deployed")
	e.set(helmOp, map[string]any{"test": "pass"})
	e.released(helmOp, 2)
	e.becomes(helmOp, addonsv1.TestedCondition, metav1.ConditionTrue, addonsv1.TestsSucceededReason)
}

// testsWait checks that tests wait while the release may become healthy, and no longer.
func (e engine) testsWait() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"never": true, "test": "pass"}, tested, healthTimeout(10*time.Minute))
	s.create(helmOp)
	e.becomes(helmOp, addonsv1.TestedCondition, metav1.ConditionUnknown, addonsv1.TestsPendingReason, inState("Untested"),
		childCondition(addonsv1.HealthyCondition, metav1.ConditionUnknown, addonsv1.HealthProgressingReason))
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.children(ctx, g, helmOp)[e.workload.name].Status.Tests).To(gomega.BeEmpty())
	}).WithContext(s.Context()).Should(gomega.Succeed())
	update(s, helmOp, healthTimeout(3*time.Second))
	e.becomes(helmOp, addonsv1.TestedCondition, metav1.ConditionTrue, addonsv1.TestsSucceededReason,
		childCondition(addonsv1.HealthyCondition, metav1.ConditionFalse, addonsv1.HealthTimeoutReason))
	e.history("1 deployed")
}

// testsIgnored runs tests that fail, with failures ignored.
func (e engine) testsIgnored() {
	helmOp := e.helmOp(map[string]any{"test": "fail"}, tested,
		func(h *addonsv1.HelmOp) { h.Spec.Test.IgnoreFailures = new(true) })
	e.scenario.create(helmOp)
	e.becomes(helmOp, addonsv1.TestedCondition, metav1.ConditionFalse, addonsv1.TestsFailedReason,
		childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	e.scenario.Consistently(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(e.scenario.children(ctx, g, helmOp)[e.workload.name].Status.Failures).To(gomega.BeZero())
	}).WithContext(e.scenario.Context()).Should(gomega.Succeed())
}
