// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// human is the field manager of a user with kubectl.
const human = client.FieldOwner("kubectl-edit")

// drift sets the mode of drift detection.
func drift(mode addonsv1.DriftMode, ignore ...addonsv1.DriftIgnoreRule) func(*addonsv1.HelmOp) {
	return func(h *addonsv1.HelmOp) {
		h.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: mode, Ignore: ignore}
	}
}

// TestDrift changes objects of releases by hand.
func TestDrift(t *testing.T) {
	s, w := newEngine(t)
	s.parts(w, map[string]func(engine){
		"warned":    engine.driftWarned,
		"corrected": engine.driftCorrected,
		"ignored":   engine.driftIgnored,
		"contested": engine.driftContested,
		"deferred":  engine.driftDeferred,
	})
}

// eventuallyNotDrifted waits until the condition reports no differences.
func (e engine) eventuallyNotDrifted(helmOp *addonsv1.HelmOp) {
	e.scenario.Helper()
	e.becomes(helmOp, addonsv1.DriftedCondition, metav1.ConditionFalse, addonsv1.NoDriftReason)
}

// eventuallyDrifted waits until the status lists exactly these objects, by kind with the first path.
func (e engine) eventuallyDrifted(helmOp *addonsv1.HelmOp, want map[string]string) {
	e.scenario.Helper()
	e.becomes(helmOp, addonsv1.DriftedCondition, metav1.ConditionTrue, addonsv1.DriftDetectedReason,
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Status.Drift).NotTo(gomega.BeNil())
			got := map[string]string{}
			for _, object := range child.Status.Drift.Objects {
				got[object.Kind] = "missing"
				if !object.Missing {
					g.Expect(object.Paths).NotTo(gomega.BeEmpty())
					got[object.Kind] = object.Paths[0]
				}
			}
			g.Expect(got).To(gomega.Equal(want))
		})
}

// configMap, secretObject and deployment return the objects of the release, for edit to change.
func (e engine) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: e.name}}
}

func (e engine) secretObject() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: e.name}}
}

func (e engine) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: e.name}}
}

// edit changes an object as a user does.
func edit[T client.Object](e engine, obj T, change func(T)) {
	e.scenario.Helper()
	e.scenario.must(e.Get(e.scenario.Context(), client.ObjectKeyFromObject(obj), obj))
	before := obj.DeepCopyObject().(client.Object)
	change(obj)
	e.scenario.must(e.Patch(e.scenario.Context(), obj, client.MergeFrom(before), human))
}

// soon waits a minute at most until check passes, and returns how long it waited. Each release is also checked every
// ten minutes: with a longer wait, this check would often hide that HelmOp did not see the change.
func (e engine) soon(check func(gomega.Gomega, context.Context)) time.Duration {
	e.scenario.Helper()
	since := time.Now()
	e.scenario.Eventually(check).WithContext(e.scenario.Context()).WithTimeout(time.Minute).Should(gomega.Succeed())
	return time.Since(since)
}

// changes selects the writes that change an object.
func changes(r apiserver.Request) bool {
	return apiserver.Writes()(r) && !strings.Contains(r.URI, "dryRun=All")
}

// requests returns the manager's requests in the namespace of the release since a time.
func (e engine) requests(g gomega.Gomega, since time.Time, filters ...apiserver.Filter) []string {
	ours := func(r apiserver.Request) bool {
		return r.Namespace == e.name && (r.UserAgent == "helmop" || strings.HasPrefix(r.UserAgent, "helmop-manager/"))
	}
	all := append([]apiserver.Filter{apiserver.Since(since), ours}, filters...)
	requests, err := e.server.Requests(all...)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	texts := make([]string, 0, len(requests))
	for _, r := range requests {
		texts = append(texts, r.Verb+" "+r.URI)
	}
	return texts
}

// driftWarned reports differences and keeps them. HelmOp sends no requests while nothing changes, and then only for
// changed objects.
func (e engine) driftWarned() {
	s := e.scenario
	helmOp := e.helmOp(nil, drift(addonsv1.DriftModeWarn))
	s.create(helmOp)
	e.released(helmOp, 1)
	e.eventuallyNotDrifted(helmOp)
	idle := time.Now()
	s.Consistently(func(g gomega.Gomega) {
		g.Expect(e.requests(g, idle)).To(gomega.BeEmpty(), "while nothing changes")
	}).Should(gomega.Succeed())

	edited := time.Now()
	edit(e, e.configMap(), func(c *corev1.ConfigMap) { c.Data["greeting"] = "by hand"; c.Data["more"] = "unmanaged" })
	e.eventuallyDrifted(helmOp, map[string]string{"ConfigMap": "/data/greeting"})
	s.Logf("a change was reported after %s, by %v", time.Since(edited).Round(time.Millisecond), e.requests(s, edited))
	s.Expect(e.requests(s, edited, apiserver.Not(apiserver.OnResource("configmaps")),
		apiserver.Not(apiserver.OnResource("secrets")))).
		To(gomega.BeEmpty(), "requests for other objects")
	s.Expect(e.requests(s, edited, changes)).To(gomega.BeEmpty(), "writes")
	child := s.child(helmOp, e.workload.name, inState("Drifted"))
	s.Expect(toJSON(child.Status)).NotTo(gomega.ContainSubstring("by hand"), "contents in the status")
	s.eventuallyEvent(child, addonsv1.DriftDetectedEvent)
	s.eventually(helmOp, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Clusters.Drifted).To(gomega.BeEquivalentTo(1))
	})

	edit(e, e.configMap(), func(c *corev1.ConfigMap) { c.Data["greeting"] = "hello" })
	e.eventuallyNotDrifted(helmOp)
	s.must(e.Delete(s.Context(), e.secretObject()))
	e.eventuallyDrifted(helmOp, map[string]string{"Secret": "missing"})
	e.history("1 deployed")
}

// driftCorrected corrects differences within seconds. It creates no revision, and writes only the objects that differ.
func (e engine) driftCorrected() {
	s := e.scenario
	helmOp := e.helmOp(map[string]any{"token": "s3cret-of-the-chart"}, drift(addonsv1.DriftModeCorrect))
	s.create(helmOp)
	e.released(helmOp, 1)
	e.eventuallyNotDrifted(helmOp)

	edited := time.Now()
	edit(e, e.configMap(), func(c *corev1.ConfigMap) { c.Data["greeting"] = "by hand"; c.Data["more"] = "unmanaged" })
	took := e.soon(func(g gomega.Gomega, ctx context.Context) {
		data, err := e.hello(ctx, e.name, e.name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(data).To(gomega.HaveKeyWithValue("greeting", "hello"))
		g.Expect(data).To(gomega.HaveKeyWithValue("more", "unmanaged"))
	})
	e.eventuallyNotDrifted(helmOp)
	s.Logf("a ConfigMap was corrected after %s, by %v", took.Round(time.Millisecond), e.requests(s, edited))
	s.Expect(e.requests(s, edited, changes)).To(gomega.HaveLen(1), "writes")
	s.Expect(e.requests(s, edited, apiserver.OnResource("deployments"))).To(gomega.BeEmpty(), "requests for others")

	edit(e, e.deployment(),
		func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "registry.invalid/by-hand:1" })
	e.soon(func(g gomega.Gomega, ctx context.Context) {
		d := e.deployment()
		g.Expect(e.Get(ctx, client.ObjectKeyFromObject(d), d)).To(gomega.Succeed())
		g.Expect(d.Spec.Template.Spec.Containers[0].Image).To(gomega.Equal("registry.invalid/app:1"))
	})
	edit(e, e.secretObject(), func(secret *corev1.Secret) { secret.Data["token"] = []byte("s3cret-by-hand") })
	e.soon(func(g gomega.Gomega, ctx context.Context) {
		secret := e.secretObject()
		g.Expect(e.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(gomega.Succeed())
		g.Expect(string(secret.Data["token"])).To(gomega.Equal("s3cret-of-the-chart"))
	})
	s.must(e.Delete(s.Context(), e.deployment()))
	e.soon(func(g gomega.Gomega, ctx context.Context) {
		d := e.deployment()
		g.Expect(e.Get(ctx, client.ObjectKeyFromObject(d), d)).To(gomega.Succeed())
	})
	e.eventuallyNotDrifted(helmOp)
	e.history("1 deployed")
	child := s.child(helmOp, e.workload.name)
	s.eventuallyEvent(child, addonsv1.DriftCorrectedEvent)
	s.Expect(toJSON(child)).NotTo(gomega.ContainSubstring("s3cret"))
	s.eventually(helmOp, ready(1))
}

// driftIgnored ignores the fields that rules, annotations and the chart exclude.
func (e engine) driftIgnored() {
	s := e.scenario
	helmOp := e.helmOp(nil, drift(addonsv1.DriftModeCorrect, addonsv1.DriftIgnoreRule{
		Paths: []string{"/spec/replicas"}, Target: &addonsv1.ObjectSelector{Kind: "Deployment"},
	}))
	s.create(helmOp)
	e.released(helmOp, 1)
	e.eventuallyNotDrifted(helmOp)
	replicas := int32(3)
	edit(e, e.deployment(), func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
	edit(e, e.configMap(), func(c *corev1.ConfigMap) {
		c.Annotations[addonsv1.DriftDetectionAnnotation] = "Disabled"
		c.Data["greeting"] = "by hand"
	})
	edit(e, e.secretObject(), func(secret *corev1.Secret) { secret.Data["another"] = []byte("of another") })
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		d, secret := e.deployment(), e.secretObject()
		g.Expect(e.Get(ctx, client.ObjectKeyFromObject(d), d)).To(gomega.Succeed())
		g.Expect(d.Spec.Replicas).To(gomega.HaveValue(gomega.BeEquivalentTo(3)))
		data, err := e.hello(ctx, e.name, e.name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(data).To(gomega.HaveKeyWithValue("greeting", "by hand"))
		g.Expect(e.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(gomega.Succeed())
		g.Expect(secret.Data).To(gomega.HaveKey("another"))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	e.eventuallyNotDrifted(helmOp)
	edit(e, e.configMap(), func(c *corev1.ConfigMap) { delete(c.Annotations, addonsv1.DriftDetectionAnnotation) })
	e.soon(func(g gomega.Gomega, ctx context.Context) {
		data, err := e.hello(ctx, e.name, e.name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(data).To(gomega.HaveKeyWithValue("greeting", "hello"))
	})
	e.history("1 deployed")
}

// driftContested changes an object back after each correction. HelmOp corrects less often, reports the contest, and
// continues with other objects.
func (e engine) driftContested() {
	s := e.scenario
	helmOp := e.helmOp(nil, drift(addonsv1.DriftModeCorrect))
	s.create(helmOp)
	e.released(helmOp, 1)
	e.eventuallyNotDrifted(helmOp)
	begun := time.Now()
	e.becomesWhile(helmOp, addonsv1.DriftContestedReason, func() {
		edit(e, e.configMap(), func(c *corev1.ConfigMap) { c.Data["greeting"] = "mine" })
	})
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		data, err := e.hello(ctx, e.name, e.name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(data).To(gomega.HaveKeyWithValue("greeting", "mine"))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.Expect(len(e.requests(s, begun, apiserver.OnResource("configmaps"), changes))).To(gomega.BeNumerically("<=", 4),
		"corrections")

	edit(e, e.secretObject(), func(secret *corev1.Secret) { secret.Data["token"] = []byte("by hand") })
	e.soon(func(g gomega.Gomega, ctx context.Context) {
		secret := e.secretObject()
		g.Expect(e.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(gomega.Succeed())
		g.Expect(string(secret.Data["token"])).To(gomega.BeEmpty())
	})
	e.history("1 deployed")
}

// becomesWhile waits until the condition Drifted of a release has a reason. It calls the function again before each
// check.
func (e engine) becomesWhile(helmOp *addonsv1.HelmOp, reason string, again func()) {
	s := e.scenario
	s.Helper()
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		again()
		child := s.children(ctx, g, helmOp)[e.workload.name]
		g.Expect(child).NotTo(gomega.BeNil())
		expectCondition(g, child, addonsv1.DriftedCondition, metav1.ConditionTrue, reason)
	}).WithContext(s.Context()).Should(gomega.Succeed())
}
