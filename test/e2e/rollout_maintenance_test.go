// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// freeze is how long the freeze of a Cluster still lasts after its end was moved.
const freeze = 20 * time.Second

// annotateCluster sets an annotation of a Cluster, or removes it if the value is empty.
func (s *scenario) annotateCluster(cluster, key, value string) {
	s.Helper()
	update(s, s.cluster(cluster), func(c *clusterv1.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		if c.Annotations[key] = value; value == "" {
			delete(c.Annotations, key)
		}
	})
}

// deferred checks how many Clusters wait for maintenance.
func deferred(n int) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Clusters.Deferred).To(gomega.BeEquivalentTo(n), toJSON(h.Status))
	}
}

// maintained rolls out to the Clusters and to three of its own Clusters: one with a veto, one with a freeze that ends,
// and one with a window that is always open.
func (t *rolloutClusters) maintained(s *scenario, name string) {
	own := &rolloutClusters{hosts: maps.Clone(t.hosts), clusters: slices.Clone(t.clusters)}
	var options []testbed.ClusterOptions
	for _, cluster := range []string{"vetoed", "frozen", "open"} {
		options = append(options, testbed.ClusterOptions{Name: cluster, Host: "host-1",
			Labels: map[string]string{poolLabel: name}})
	}
	for _, w := range s.clusters(options...) {
		own.hosts[w.name], own.clusters = w, append(own.clusters, w.name)
	}
	q := own.newRolloutHelmOp(s, name, canaryFirst())

	since := time.Now()
	freezeUntil := func(end time.Time) {
		s.annotateCluster("frozen", addonsv1.MaintenanceFreezesAnnotation, "2026-01-01/"+end.Format(time.RFC3339))
	}
	s.annotateCluster("vetoed", addonsv1.MaintenanceVetoAnnotation, "quarter end")
	// On a full machine, each step takes much longer than usual. The freeze must outlast the checks.
	later := since.Add(time.Hour).UTC().Truncate(time.Second)
	freezeUntil(later)
	s.annotateCluster("open", addonsv1.MaintenanceWindowsAnnotation, "* * * * * 1h Europe/Berlin")
	q.greet("two")
	q.eventuallyText("two", t.clusters)
	q.eventuallyText("two", []string{"open"}, "1 superseded", "2 deployed")
	q.eventually(progress(13, 13, 0), deferred(2))
	h := q.eventually(inPhase(2, addonsv1.RolloutPhaseProgressing), progress(13, 13, 0), deferred(2),
		condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.WaitingForMaintenanceReason),
		condition(addonsv1.RollingOutCondition, metav1.ConditionTrue, addonsv1.WaitingForMaintenanceReason),
		waitsFor("maintenance (the next is at "+later.Format(time.RFC3339)+") in 1 Cluster"))
	s.Expect(h.Status.Rollout.NextMaintenance.Time).To(gomega.BeTemporally("==", later))
	s.Expect(s.mustCommand("rollout", "status", name, "--watch=false")).To(gomega.ContainSubstring(
		"maintenance (the next is at " + later.Format(time.RFC3339) + ")"))

	// The freeze ends by itself. The rollout ends although the veto still exists.
	until := time.Now().Add(freeze).UTC().Truncate(time.Second)
	freezeUntil(until)
	q.eventuallyText("two", []string{"frozen"}, "1 superseded", "2 deployed")
	s.Expect(s.child(q.helmOp, "frozen").Spec.Rollout.At.Time).To(gomega.BeTemporally(">=", until))
	q.eventually(inPhase(2, addonsv1.RolloutPhaseComplete), progress(14, 14, 0), deferred(1))
	q.untouched(since, []string{"vetoed"})

	s.annotateCluster("vetoed", addonsv1.MaintenanceVetoAnnotation, "")
	q.eventually(ready(q.count))
	q.eventuallyText("two", []string{"vetoed"}, "1 superseded", "2 deployed")

	// A return to the revision before does not wait.
	update(s, q.helmOp, func(h *addonsv1.HelmOp) { h.Spec.Rollout.Waves = nil })
	q.greet("slow")
	q.eventuallyText("slow", []string{"open"})
	s.annotateCluster("open", addonsv1.MaintenanceVetoAnnotation, "it is broken")
	q.annotate(addonsv1.RolloutAbortAnnotation, "3")
	q.eventuallyText("two", []string{"open"})
	q.eventually(inPhase(3, addonsv1.RolloutPhaseAborted))
}

// driftDeferred reports drift while the HelmOp has a veto, and corrects it afterwards.
func (e engine) driftDeferred() {
	s := e.scenario
	helmOp := e.helmOp(nil, drift(addonsv1.DriftModeCorrect), func(h *addonsv1.HelmOp) {
		h.Spec.Maintenance = &addonsv1.Maintenance{Veto: "audit"}
	})
	s.create(helmOp)
	// An installation does not wait.
	e.released(helmOp, 1)
	e.eventuallyNotDrifted(helmOp)
	edit(e, e.configMap(), func(c *corev1.ConfigMap) { c.Data["greeting"] = "by hand" })
	e.eventuallyDrifted(helmOp, map[string]string{"ConfigMap": "/data/greeting"})
	e.becomes(helmOp, addonsv1.DriftedCondition, metav1.ConditionTrue, addonsv1.DriftDetectedReason,
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(conditions.GetMessage(child, addonsv1.DriftedCondition)).To(gomega.ContainSubstring(
				"The correction waits for maintenance: the HelmOp has a veto: audit"))
		})
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		data, err := e.hello(ctx, e.name, e.name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(data).To(gomega.HaveKeyWithValue("greeting", "by hand"))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Maintenance = nil })
	e.soon(func(g gomega.Gomega, ctx context.Context) {
		data, err := e.hello(ctx, e.name, e.name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(data).To(gomega.HaveKeyWithValue("greeting", "hello"))
	})
	e.eventuallyNotDrifted(helmOp)
	e.history("1 deployed")
}
