// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// brakeSize is the number of Clusters of TestMassDeletionWaitsForConfirmation.
const brakeSize = 10

// brakeFleet is a HelmOp with ten Clusters on one API server.
type brakeFleet struct {
	*scenario
	helmOp   *addonsv1.HelmOp
	clusters []*workload
}

// TestMassDeletionWaitsForConfirmation checks that releases are not deleted by mistake. A selector with a typo waits
// for a confirmation, deletions are paced, and an orphaning deletion of a HelmOp keeps its releases.
func TestMassDeletionWaitsForConfirmation(t *testing.T) {
	s := newScenario(t)
	s.push(s.env.Registry, "charts/note", "1.0.0")
	f := &brakeFleet{scenario: s}
	options := []testbed.ClusterOptions{{Name: "host"}}
	for i := range brakeSize {
		options = append(options, testbed.ClusterOptions{Name: fmt.Sprintf("b%d", i), Host: "host",
			Labels: map[string]string{addonsLabel: "brake"}})
	}
	f.clusters = s.clusters(options...)[1:]
	f.helmOp = s.newHelmOp("brake", func(h *addonsv1.HelmOp) {
		h.Spec.Source = s.env.Source("charts/note", addonsv1.ArtifactReference{Tag: "1.0.0"})
		h.Spec.Release = addonsv1.ReleaseTemplate{Namespace: "brake-{{ .Cluster.metadata.name }}"}
		h.Spec.Values = rawJSON(greeting("one"))
		h.Spec.Rollout = &addonsv1.Rollout{}
		atMost(2)(h.Spec.Rollout)
	})
	s.create(f.helmOp)
	s.eventually(f.helmOp, ready(brakeSize))
	for _, step := range []struct {
		name string
		do   func(*brakeFleet)
	}{
		{"deletes releases of relabelled Clusters up to the limit", (*brakeFleet).losesLabels},
		{"holds deletions of a selector with a typo until it is corrected", (*brakeFleet).waits},
		{"deletes confirmed releases within the limits", (*brakeFleet).confirms},
		{"deletes the releases of a deleted HelmOp within the limits", (*brakeFleet).isDeleted},
		{"an orphaning deletion keeps the releases for another HelmOp", (*brakeFleet).isOrphaned},
	} {
		s.step(step.name, func(s *scenario) {
			f.scenario = s
			step.do(f)
		})
	}
}

// choose changes the selector.
func (f *brakeFleet) choose(value string) {
	f.Helper()
	update(f.scenario, f.helmOp, func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels[addonsLabel] = value })
}

// confirm sets the annotation that confirms deletions.
func (f *brakeFleet) confirm(value string) {
	f.Helper()
	update(f.scenario, f.helmOp, func(h *addonsv1.HelmOp) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, addonsv1.ConfirmDeletionsAnnotation, value)
	})
}

// held waits until the status has the given numbers of deletions and releases. It returns the value that confirms the
// deletions.
func (f *brakeFleet) held(waiting, total int) string {
	f.Helper()
	helmOp := f.eventually(f.helmOp,
		condition(addonsv1.DeletionsHeldCondition, metav1.ConditionTrue, addonsv1.ConfirmationRequiredReason),
		condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ConfirmationRequiredReason),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			message := conditions.GetMessage(h, addonsv1.DeletionsHeldCondition)
			g.Expect(h.Status.Deletions).NotTo(gomega.BeNil())
			g.Expect(h.Status.Deletions.Waiting).To(gomega.BeEquivalentTo(waiting))
			g.Expect(message).To(gomega.ContainSubstring("%d of %d releases", waiting, total))
			g.Expect(message).To(gomega.ContainSubstring(h.Status.Deletions.Confirmation))
		})
	return helmOp.Status.Deletions.Confirmation
}

// keeps fails if a release is deleted now or soon. n is the expected number of releases.
func (f *brakeFleet) keeps(n int) {
	f.Helper()
	f.Consistently(func(g gomega.Gomega, ctx context.Context) {
		children := f.children(ctx, g, f.helmOp)
		g.Expect(children).To(gomega.HaveLen(n))
		for name, child := range children {
			g.Expect(child.DeletionTimestamp.IsZero()).To(gomega.BeTrue(), "%s is deleted", name)
		}
	}).WithContext(f.Context()).Should(gomega.Succeed())
}

// installed waits until the release of each Cluster has these revisions. Without revisions, it waits until the releases
// are uninstalled.
func (f *brakeFleet) installed(revisions ...string) {
	f.Helper()
	for _, w := range f.clusters {
		w.in(f.scenario).eventuallyRevisions("brake-"+w.name, "brake", revisions...)
	}
}

// losesLabels removes the labels of the Clusters, each after the release before has been uninstalled. The default
// permits three.
func (f *brakeFleet) losesLabels() {
	for i := range 3 {
		f.label(f.clusters[i].name, addonsLabel, "")
		f.Eventually(func(g gomega.Gomega, ctx context.Context) {
			g.Expect(f.children(ctx, g, f.helmOp)).To(gomega.HaveLen(brakeSize - 1 - i))
		}).WithContext(f.Context()).Should(gomega.Succeed())
	}
	f.label(f.clusters[3].name, addonsLabel, "")
	f.held(1, brakeSize)
	f.keeps(brakeSize - 3)
	for i := range 4 {
		f.label(f.clusters[i].name, addonsLabel, "brake")
	}
	f.eventually(f.helmOp, ready(brakeSize))
}

func (f *brakeFleet) waits() {
	f.choose("brakee")
	old := f.held(brakeSize, brakeSize)
	f.eventuallyEvent(f.helmOp, addonsv1.DeletionsHeldEvent)
	f.keeps(brakeSize)
	f.confirm("10-000000000000")
	f.keeps(brakeSize)
	f.choose("brake")
	f.eventually(f.helmOp, ready(brakeSize), func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(conditions.Get(h, addonsv1.DeletionsHeldCondition)).To(gomega.BeNil())
	})
	f.installed("1 deployed")
	// The confirmation of the first mass deletion does not confirm the second.
	f.confirm(old)
	f.choose("brakee")
	f.held(brakeSize, brakeSize)
	f.keeps(brakeSize)
}

func (f *brakeFleet) confirms() {
	log := f.watchDeletions(func(*addonsv1.HelmOpRelease) bool { return true })
	f.held(brakeSize, brakeSize)
	f.Expect(f.answers("confirm", "brake")).To(gomega.ContainSubstring("brake"))
	f.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(f.children(ctx, g, f.helmOp)).To(gomega.BeEmpty())
	}).WithContext(f.Context()).Should(gomega.Succeed())
	f.installed()
	f.Expect(log.most()).To(gomega.BeNumerically("<=", 2), "deletions at the same time")
	f.eventuallyEvent(f.helmOp, addonsv1.DeletionsConfirmedEvent)
}

func (f *brakeFleet) isDeleted() {
	f.choose("brake")
	f.eventually(f.helmOp, ready(brakeSize))
	log := f.watchDeletions(func(child *addonsv1.HelmOpRelease) bool {
		return apiutil.IsAdmittedBy(child, f.helmOp.UID)
	})
	// Garbage collection deletes all HelmOpReleases at once. The releases are nevertheless uninstalled one after the
	// other.
	f.must(f.client.Delete(f.Context(), f.helmOp, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	f.eventuallyGone(f.helmOp)
	f.installed()
	f.Expect(log.most()).To(gomega.BeElementOf(1, 2), "uninstallations at the same time")
}

func (f *brakeFleet) isOrphaned() {
	again := f.helmOp.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Namespace: f.namespace, Name: "brake"}
	again.Status = addonsv1.HelmOpStatus{}
	next := again.DeepCopy()
	f.create(again)
	f.eventually(again, ready(brakeSize))
	f.must(f.client.Delete(f.Context(), again, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	f.eventuallyGone(again)
	f.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(f.children(ctx, g, again)).To(gomega.BeEmpty())
		revisions := &addonsv1.HelmOpRevisionList{}
		g.Expect(f.client.List(ctx, revisions, client.InNamespace(f.namespace))).To(gomega.Succeed())
		g.Expect(revisions.Items).To(gomega.BeEmpty())
	}).WithContext(f.Context()).Should(gomega.Succeed())
	f.installed("1 deployed")
	next.Spec.MaxDeletions = new(intstr.FromString("100%"))
	f.create(next)
	f.eventually(next, ready(brakeSize))
	f.installed("1 deployed")
	f.remove(next)
	f.eventuallyGone(next)
	f.installed()
}

// deletionLog records which releases are being deleted.
type deletionLog struct {
	mu       sync.Mutex
	deleting map[string]bool
	max      int
	// counts reports whether a release that is being deleted counts.
	counts func(*addonsv1.HelmOpRelease) bool
}

// most returns the largest number of releases that were being deleted at the same time.
func (l *deletionLog) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.max
}

func (l *deletionLog) add(event watch.Event) {
	child, ok := event.Object.(*addonsv1.HelmOpRelease)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.deleting, child.Name)
	if event.Type != watch.Deleted && !child.DeletionTimestamp.IsZero() && l.counts(child) {
		l.deleting[child.Name] = true
	}
	l.max = max(l.max, len(l.deleting))
}

// watchDeletions starts to watch the releases of the HelmOp.
func (f *brakeFleet) watchDeletions(counts func(*addonsv1.HelmOpRelease) bool) *deletionLog {
	f.Helper()
	log := &deletionLog{deleting: map[string]bool{}, counts: counts}
	f.follow(&addonsv1.HelmOpReleaseList{}, log.add, client.MatchingLabels{addonsv1.HelmOpNameLabel: f.helmOp.Name})
	return log
}
