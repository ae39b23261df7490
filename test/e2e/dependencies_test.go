// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// stack is a set of HelmOps that depend on each other, in two Clusters that share an API server. The health of a
// release follows the text of its ConfigMap: a text that begins with "bad" means failed, and "slow" means in progress.
type stack struct {
	*scenario
	part  string
	hosts map[string]*workload
}

// stackClusters are the Clusters of stacks.
var stackClusters = []string{"one", "two"}

// TestDependencies checks that HelmOps wait for their dependencies, in each Cluster separately.
func TestDependencies(t *testing.T) {
	s := newScenario(t)
	s.push(s.env.Registry, "charts/note", "1.0.0")
	hosts := map[string]*workload{}
	for _, w := range s.clusters(
		testbed.ClusterOptions{Name: "one", Labels: map[string]string{"few": "yes"}},
		testbed.ClusterOptions{Name: "two", Host: "one"},
	) {
		hosts[w.name] = w
	}
	for name, do := range map[string]func(stack){
		"install": stack.installsInOrder,
		"broken":  stack.holdsForBroken,
		"upgrade": stack.upgradesInOrder,
		"cycle":   stack.reportsCycles,
		"fewer":   stack.reportsMissingDependency,
		"expr":    stack.evaluatesExpression,
		"reverse": stack.uninstallsInReverse,
		"replace": stack.replacesWithoutWaiting,
		"needed":  stack.keepsWhatIsNeeded,
	} {
		s.part(name, func(s *scenario) { do(stack{scenario: s, part: name, hosts: hosts}) })
	}
}

// helmOp returns a HelmOp of the stack. It does not create the HelmOp.
func (s stack) helmOp(name, text string, dependencies ...string) *addonsv1.HelmOp {
	return s.newHelmOp(s.part+"-"+name, forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Source = s.env.Source("charts/note", addonsv1.ArtifactReference{Tag: "1.0.0"})
		h.Spec.Release = addonsv1.ReleaseTemplate{Namespace: h.Name + "-{{ .Cluster.metadata.name }}"}
		h.Spec.Values = rawJSON(greeting(text))
		h.Spec.Health = &addonsv1.HealthOptions{Checks: []addonsv1.HealthCheck{{
			APIVersion: "v1", Kind: "ConfigMap", Current: "!self.data.greeting.startsWith('slow')",
			Failed: "self.data.greeting.startsWith('bad')",
		}}}
		for _, dependency := range dependencies {
			h.Spec.DependsOn = append(h.Spec.DependsOn, addonsv1.Dependency{Name: s.part + "-" + dependency})
		}
	})
}

// setText changes the text of the release of a HelmOp in a Cluster, without HelmOp.
func (s stack) setText(helmOp *addonsv1.HelmOp, cluster, text string) {
	s.Helper()
	w := s.hosts[cluster]
	configMap := &corev1.ConfigMap{}
	s.must(w.Get(s.Context(), client.ObjectKey{Namespace: helmOp.Name + "-" + cluster, Name: helmOp.Name}, configMap))
	patch := client.MergeFrom(configMap.DeepCopy())
	configMap.Data["greeting"] = text
	s.must(w.Patch(s.Context(), configMap, patch))
}

// revisions waits until the release of a HelmOp in a Cluster has exactly these revisions.
func (s stack) revisions(helmOp *addonsv1.HelmOp, cluster string, want ...string) {
	s.Helper()
	s.hosts[cluster].in(s.scenario).eventuallyRevisions(helmOp.Name+"-"+cluster, helmOp.Name, want...)
}

// waits returns when the release of a HelmOp in a Cluster reports a reason and a message.
func (s stack) waits(helmOp *addonsv1.HelmOp, cluster, reason, message string) {
	s.Helper()
	s.child(helmOp, cluster, childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, reason), childMessage(message))
}

// expectUnchanged fails if the releases of the HelmOps change in any Cluster.
func (s stack) expectUnchanged(helmOps ...*addonsv1.HelmOp) {
	s.Helper()
	read := func(g gomega.Gomega, ctx context.Context) (all [][]revision) {
		for _, helmOp := range helmOps {
			for _, cluster := range stackClusters {
				revisions, err := s.hosts[cluster].revisions(ctx, helmOp.Name+"-"+cluster, helmOp.Name)
				g.Expect(err).NotTo(gomega.HaveOccurred())
				all = append(all, revisions)
			}
		}
		return all
	}
	before := read(s, s.Context())
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(read(g, ctx)).To(gomega.Equal(before))
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// writes returns the times of the first and the last write to Helm's records of the release of a HelmOp in a Cluster,
// after the time since. Deletions are writes too.
func (s stack) writes(helmOp *addonsv1.HelmOp, cluster string, since time.Time) (first, last time.Time) {
	s.Helper()
	requests, err := s.hosts[cluster].server.Requests(apiserver.Since(since), apiserver.Writes(),
		func(r apiserver.Request) bool {
			return r.Namespace == helmOp.Name+"-"+cluster && r.Resource == "secrets" && r.Code < 300
		})
	s.must(err)
	s.Expect(requests).NotTo(gomega.BeEmpty(), "writes of %s in %s", helmOp.Name, cluster)
	first, last = requests[0].Time, requests[0].Time
	for _, r := range requests {
		if r.Time.Before(first) {
			first = r.Time
		}
		if r.Time.After(last) {
			last = r.Time
		}
	}
	return first, last
}

// expectOrder expects that, in every Cluster, Helm finished each HelmOp before it started the next.
func (s stack) expectOrder(since time.Time, helmOps ...*addonsv1.HelmOp) {
	s.Helper()
	for _, cluster := range stackClusters {
		for i := range helmOps[1:] {
			_, done := s.writes(helmOps[i], cluster, since)
			begun, _ := s.writes(helmOps[i+1], cluster, since)
			s.Expect(begun).To(gomega.BeTemporally(">", done), "%s after %s in %s", helmOps[i+1].Name, helmOps[i].Name, cluster)
		}
	}
}

// createAll creates HelmOps in reverse order.
func (s stack) createAll(helmOps ...*addonsv1.HelmOp) {
	s.Helper()
	for i := range helmOps {
		s.create(helmOps[len(helmOps)-1-i])
	}
}

// installsInOrder installs three HelmOps. The last one is created first.
func (s stack) installsInOrder() {
	since := time.Now()
	base, middle, top := s.helmOp("base", "hi"), s.helmOp("middle", "hi", "base"), s.helmOp("top", "hi", "middle", "base")
	s.createAll(base, middle, top)
	for _, helmOp := range []*addonsv1.HelmOp{base, middle, top} {
		s.eventually(helmOp, ready(2))
	}
	s.expectOrder(since, base, middle, top)
}

// holdsForBroken makes a dependency fail in one of two Clusters.
func (s stack) holdsForBroken() {
	base, app, other := s.helmOp("base", "slow"), s.helmOp("app", "hi", "base"), s.helmOp("other", "hi")
	s.createAll(base, app, other)
	for _, cluster := range stackClusters {
		s.waits(app, cluster, addonsv1.WaitingForDependenciesReason,
			"release of HelmOp broken-base is not Ready: Progressing")
	}
	s.setText(base, "one", "hi")
	s.setText(base, "two", "bad")
	s.revisions(app, "one", "1 deployed")
	s.waits(app, "two", addonsv1.WaitingForDependenciesReason, "HealthCheckFailed")
	s.eventually(other, ready(2))
	s.eventually(app, message(addonsv1.ReadyCondition,
		"1 of 2 Clusters waits for dependencies; two: the release of HelmOp broken-base is not Ready"),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(*h.Status.Clusters).To(gomega.Equal(addonsv1.ClusterCounts{Selected: 2, UpToDate: 1, Ready: 1, Blocked: 1}))
			g.Expect(h.Status.Failures).To(gomega.BeEmpty())
		})
	s.expectUnchanged(app)
	// An installed release is not touched and stays Ready when its dependency becomes unhealthy.
	s.setText(base, "one", "bad")
	s.child(base, "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.HealthFailedReason))
	s.expectUnchanged(app)
	s.child(app, "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	s.setText(base, "two", "hi")
	s.revisions(app, "two", "1 deployed")
	s.eventually(app, ready(2))
}

// upgradesInOrder changes two HelmOps at the same time, while the first one waits for a third.
func (s stack) upgradesInOrder() {
	base, app, third := s.helmOp("base", "hi"), s.helmOp("app", "hi", "base"), s.helmOp("third", "slow")
	s.createAll(base, app)
	s.eventually(app, ready(2))
	since := time.Now()
	s.create(third)
	update(s.scenario, base, func(h *addonsv1.HelmOp) {
		h.Spec.DependsOn = []addonsv1.Dependency{{Name: third.Name}}
		h.Spec.Values = rawJSON(greeting("new"))
	})
	s.setValues(app, greeting("new"))
	s.eventually(base, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.WaitingForDependenciesReason))
	s.eventually(app, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.WaitingForDependenciesReason))
	s.revisions(third, "two", "1 deployed")
	s.expectUnchanged(base, app)
	s.setText(third, "two", "hi")
	s.revisions(app, "two", "1 superseded", "2 deployed")
	s.revisions(app, "one", "1 deployed")
	s.revisions(third, "one", "1 deployed")
	s.setText(third, "one", "hi")
	s.eventually(app, ready(2))
	s.expectOrder(since, base, app)

	// A HelmOp also waits for a quick dependency, even if both change almost at once.
	since = time.Now()
	s.setValues(base, greeting("third"))
	s.setValues(app, greeting("third"))
	s.eventually(base, ready(2))
	s.eventually(app, ready(2))
	s.revisions(app, "one", "1 superseded", "2 superseded", "3 deployed")
	s.expectOrder(since, base, app)
}

// reportsCycles closes a cycle of dependencies, opens it, and deletes HelmOps in a cycle.
func (s stack) reportsCycles() {
	a, b, c := s.helmOp("a", "hi"), s.helmOp("b", "hi", "a"), s.helmOp("c", "hi", "b")
	s.createAll(a, b)
	s.eventually(b, ready(2))
	s.create(c)
	s.eventually(c, ready(2))
	on := func(name string) func(*addonsv1.HelmOp) {
		return func(h *addonsv1.HelmOp) { h.Spec.DependsOn = []addonsv1.Dependency{{Name: s.part + "-" + name}} }
	}
	update(s.scenario, a, on("c"))
	for helmOp, path := range map[*addonsv1.HelmOp]string{a: "cycle-a → cycle-c → cycle-b → cycle-a",
		b: "cycle-b → cycle-a → cycle-c → cycle-b", c: "cycle-c → cycle-b → cycle-a → cycle-c"} {
		s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.DependencyCycleReason),
			message(addonsv1.ReadyCondition, path))
	}
	s.setValues(b, greeting("new"))
	s.expectUnchanged(a, b, c)
	update(s.scenario, a, func(h *addonsv1.HelmOp) { h.Spec.DependsOn = nil })
	for _, helmOp := range []*addonsv1.HelmOp{a, b, c} {
		s.eventually(helmOp, ready(2))
	}
	s.revisions(b, "one", "1 superseded", "2 deployed")
	own := s.helmOp("own", "hi", "own")
	s.create(own)
	s.eventually(own, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.DependencyCycleReason),
		message(addonsv1.ReadyCondition, "cycle-own → cycle-own"))
	s.waits(own, "one", addonsv1.DependencyCycleReason, "cycle-own → cycle-own")
	update(s.scenario, a, on("c"))
	s.eventually(c, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.DependencyCycleReason))
	for _, helmOp := range []*addonsv1.HelmOp{a, b, c, own} {
		s.remove(helmOp)
	}
	for _, helmOp := range []*addonsv1.HelmOp{a, b, c, own} {
		s.eventuallyGone(helmOp)
		s.revisions(helmOp, "one")
	}
}

// reportsMissingDependency creates the dependency late, for only one of two Clusters.
func (s stack) reportsMissingDependency() {
	base, app := s.helmOp("base", "hi"), s.helmOp("app", "hi", "base")
	s.create(app)
	s.waits(app, "one", addonsv1.WaitingForDependenciesReason, "HelmOp fewer-base does not exist")
	base.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"few": "yes"}}
	s.create(base)
	s.revisions(app, "one", "1 deployed")
	s.waits(app, "two", addonsv1.WaitingForDependenciesReason, "HelmOp fewer-base does not select Cluster two")
	s.eventually(app, message(addonsv1.ReadyCondition,
		"1 of 2 Clusters waits for dependencies; two: HelmOp fewer-base does not select Cluster two"))
	update(s.scenario, base, forAll)
	s.eventually(app, ready(2))
}

// evaluatesExpression uses a malformed expression, and then an expression for which a release must wait.
func (s stack) evaluatesExpression() {
	base, app := s.helmOp("base", "hi"), s.helmOp("app", "hi", "base")
	readyIf := func(expr string) func(*addonsv1.HelmOp) {
		return func(h *addonsv1.HelmOp) { h.Spec.DependsOn[0].ReadyExpr = expr }
	}
	readyIf("release.status.release.")(app)
	s.createAll(base, app)
	s.eventually(app, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.InvalidDependencyReason),
		message(addonsv1.ReadyCondition, "spec.dependsOn: readyExpr for HelmOp expr-base: line 1, column"))
	s.waits(app, "one", addonsv1.InvalidDependencyReason, "readyExpr for HelmOp expr-base")
	update(s.scenario, app, readyIf("release.status.release.revision >= 2"))
	s.waits(app, "one", addonsv1.WaitingForDependenciesReason, "readyExpr for HelmOp expr-base is false")
	s.eventually(base, ready(2))
	s.revisions(app, "one")
	s.setValues(base, greeting("more"))
	s.eventually(app, ready(2))
}

// uninstallsInReverse deletes three HelmOps in the order of their dependencies.
func (s stack) uninstallsInReverse() {
	base, middle, top := s.helmOp("base", "hi"), s.helmOp("middle", "hi", "base"), s.helmOp("top", "hi", "middle")
	s.createAll(base, middle, top)
	s.eventually(top, ready(2))
	since := time.Now()
	held := s.child(top, "one")
	update(s.scenario, held,
		func(r *addonsv1.HelmOpRelease) { r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	for _, helmOp := range []*addonsv1.HelmOp{base, middle, top} {
		s.remove(helmOp)
	}
	for _, helmOp := range []*addonsv1.HelmOp{base, middle, top} {
		s.revisions(helmOp, "two")
	}
	s.waits(middle, "one", addonsv1.DeletingReason,
		"waits for the release of HelmOp reverse-top, which depends on this release and is being deleted, but is paused")
	s.eventually(base, message(addonsv1.ReadyCondition,
		"Cluster one: The uninstallation waits for the release of HelmOp reverse-middle, which depends on this release and "+
			"is being deleted"),
		condition(addonsv1.DeletingCondition, metav1.ConditionTrue, addonsv1.DeletingReason),
		message(addonsv1.DeletingCondition, "reverse-middle"))
	s.Expect(conditions.GetReason(held, addonsv1.DeletingCondition)).To(gomega.BeEmpty(), "before its deletion")
	s.Eventually(func(g gomega.Gomega) {
		release := s.child(middle, "one")
		g.Expect(conditions.IsTrue(release, addonsv1.DeletingCondition)).To(gomega.BeTrue())
		g.Expect(conditions.GetMessage(release, addonsv1.DeletingCondition)).To(gomega.ContainSubstring("reverse-top"))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.revisions(middle, "one", "1 deployed")
	s.revisions(base, "one", "1 deployed")
	update(s.scenario, held, func(r *addonsv1.HelmOpRelease) { r.Annotations = nil })
	for _, helmOp := range []*addonsv1.HelmOp{base, middle, top} {
		s.eventuallyGone(helmOp)
	}
	s.expectOrder(since, top, middle, base)
}

// replacesWithoutWaiting renames the release of a dependency.
func (s stack) replacesWithoutWaiting() {
	base, app := s.helmOp("base", "hi"), s.helmOp("app", "hi", "base")
	s.createAll(base, app)
	s.eventually(app, ready(2))
	update(s.scenario, base, func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "renamed" })
	s.eventually(base, ready(2))
	s.hosts["one"].in(s.scenario).eventuallyRevisions(base.Name+"-one", "renamed", "1 deployed")
	s.revisions(base, "one")
	s.eventually(app, ready(2))
	s.revisions(app, "one", "1 deployed")
}

// keepsWhatIsNeeded deletes, unselects and selects only the dependency.
func (s stack) keepsWhatIsNeeded() {
	base, app := s.helmOp("base", "hi"), s.helmOp("app", "hi", "base")
	s.createAll(base, app)
	s.eventually(app, ready(2))
	update(s.scenario, base,
		func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels = map[string]string{"few": "yes"} })
	s.waits(base, "two", addonsv1.DeletingReason,
		"waits for the release of HelmOp needed-app, which depends on this release: delete HelmOp needed-app")
	s.eventually(base, message(addonsv1.ReadyCondition,
		"Cluster two: The uninstallation waits for the release of HelmOp needed-app"))
	update(s.scenario, base, forAll)
	s.eventually(base, ready(2))
	s.revisions(base, "two", "1 deployed")
	s.remove(base)
	s.waits(base, "one", addonsv1.DeletingReason, "waits for the release of HelmOp needed-app")
	s.expectUnchanged(base, app)
	update(s.scenario, app, func(h *addonsv1.HelmOp) { h.Spec.DependsOn = nil })
	s.eventuallyGone(base)
	s.revisions(app, "two", "1 deployed")
}

// childMessage checks the message of the condition Ready of a HelmOpRelease.
func childMessage(text string) func(gomega.Gomega, *addonsv1.HelmOpRelease) {
	return func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		for _, c := range child.Status.Conditions {
			if c.Type == addonsv1.ReadyCondition {
				g.Expect(c.Message).To(gomega.ContainSubstring(text))
			}
		}
	}
}
