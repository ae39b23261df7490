// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// limit sets an annotation of a Cluster; an empty value removes it.
func (f *fixture) limit(name, annotation, value string) {
	f.Helper()
	cluster := &clusterv1.Cluster{}
	f.must(f.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, cluster))
	before := cluster.DeepCopy()
	if cluster.Annotations == nil {
		cluster.Annotations = map[string]string{}
	}
	if cluster.Annotations[annotation] = value; value == "" {
		delete(cluster.Annotations, annotation)
	}
	f.must(f.Patch(f.Context(), cluster, client.MergeFrom(before)))
}

// waitsForMaintenance waits until a number of Clusters waits for maintenance. It returns the condition Ready of the
// HelmOp.
func (f *fixture) waitsForMaintenance(helmOp *addonsv1.HelmOp, revision int64, deferred int32) *metav1.Condition {
	f.Helper()
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Rollout).To(gomega.HaveField("Revision", revision))
		g.Expect(helmOp.Status.Clusters.Deferred).To(gomega.Equal(deferred))
		g.Expect(conditions.GetReason(helmOp, addonsv1.ReadyCondition)).To(
			gomega.Equal(addonsv1.WaitingForMaintenanceReason))
		g.Expect(conditions.Get(helmOp, addonsv1.StalledCondition)).To(gomega.BeNil())
	})
	return conditions.Get(helmOp, addonsv1.ReadyCondition)
}

// TestRolloutWaitsForMaintenance rolls out two HelmOp revisions. One Cluster has a veto, and one has a freeze with an
// end.
func TestRolloutWaitsForMaintenance(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	for _, name := range []string{"one", "two", "three"} {
		f.cluster(name)
	}
	// A new Cluster is installed even with a veto.
	f.limit("two", addonsv1.MaintenanceVetoAnnotation, "quarter end")
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) { s.Rollout = &addonsv1.Rollout{} })
	f.completes(helmOp, 1, "one", "two", "three")

	before := f.generations()
	freeze := func(duration time.Duration) (until time.Time) {
		until = time.Now().Add(duration).UTC().Truncate(time.Second)
		f.limit("three", addonsv1.MaintenanceFreezesAnnotation, "2026-01-01/"+until.Format(time.RFC3339))
		return until
	}
	until := freeze(time.Hour)
	f.registry.set(f.namespace, digestOf("b"))
	f.update(helmOp, func(h *addonsv1.HelmOp) {
		h.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: "second"}
	})
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(f.releases()["one"].Spec.Rollout.Revision).To(gomega.Equal(int64(2)))
		g.Expect(helmOp.Status.Rollout.NextMaintenance.Time).To(gomega.BeTemporally("==", until))
	})
	for _, name := range []string{"two", "three"} {
		f.Expect(f.generations()[name]).To(gomega.Equal(before[name]))
	}
	f.ready(f.releases()["one"])

	until = freeze(3 * time.Second)
	// The freeze ends by itself. The veto does not delay the end of the rollout, because most Clusters are complete.
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(f.releases()["three"].Spec.Rollout.Revision).To(gomega.Equal(int64(2)))
	})
	f.Expect(time.Now()).To(gomega.BeTemporally(">=", until))
	f.ready(f.releases()["three"])
	ready := f.waitsForMaintenance(helmOp, 2, 1)
	f.Expect(ready.Message).To(gomega.Equal("1 of 3 Clusters waits for maintenance; two: the Cluster has a veto: " +
		"quarter end"))
	f.Expect(helmOp.Status.Rollout.Phase).To(gomega.Equal(addonsv1.RolloutPhaseComplete))
	f.Expect(f.generations()["two"]).To(gomega.Equal(before["two"]))
	f.limit("two", addonsv1.MaintenanceVetoAnnotation, "")
	f.completes(helmOp, 2, "one", "two", "three")
}

// TestLimitsOfHelmOp checks the limits in the spec of a HelmOp. A malformed window must not permit a change.
func TestLimitsOfHelmOp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	f.cluster("one")
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) {
		s.Maintenance = &addonsv1.Maintenance{Veto: "not before Monday",
			Includes: []addonsv1.MaintenanceScope{addonsv1.MaintenanceInstallation}}
	})
	ready := f.waitsForMaintenance(helmOp, 1, 1)
	f.Expect(ready.Message).To(gomega.Equal("1 of 1 Cluster waits for maintenance; one: the HelmOp has a veto: " +
		"not before Monday"))
	f.Expect(f.releases()).To(gomega.BeEmpty())
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.Maintenance.Includes = nil })
	f.completes(helmOp, 1, "one")

	f.update(helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Maintenance = &addonsv1.Maintenance{Windows: []addonsv1.MaintenanceWindow{
			{Schedule: "0 25 * * *", Duration: metav1.Duration{Duration: time.Hour}}}}
		h.Spec.Release.Namespace = "elsewhere"
	})
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(conditions.Get(helmOp, addonsv1.ReadyCondition)).To(gomega.And(
			gomega.HaveField("Reason", addonsv1.InvalidMaintenanceReason),
			gomega.HaveField("Message", gomega.ContainSubstring("spec.maintenance.windows[0]: the schedule"))))
		g.Expect(conditions.IsTrue(helmOp, addonsv1.StalledCondition)).To(gomega.BeTrue())
		g.Expect(helmOp.Status.Rollout.Revision).To(gomega.Equal(int64(2)))
	})
	// The HelmOp can ignore the limits of Clusters.
	f.limit("one", addonsv1.MaintenanceWindowsAnnotation, "no cron expression")
	f.Expect(f.releases()["one"].Spec.Release.Namespace).To(gomega.Equal("default"))
	f.update(helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Maintenance = &addonsv1.Maintenance{ClusterLimits: addonsv1.ClusterLimitsIgnored}
		h.Spec.Release.Namespace, h.Spec.Values = "default", nil
		h.Spec.ValuesTemplate = "changed: true"
	})
	f.completes(helmOp, 3, "one")
}

// TestUnselectedClusterWaitsForMaintenance checks that a release is not deleted in a Cluster with a veto.
func TestUnselectedClusterWaitsForMaintenance(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	f.cluster("one")
	f.cluster("two")
	helmOp := f.helmOp(func(*addonsv1.HelmOpSpec) {})
	f.completes(helmOp, 1, "one", "two")
	f.limit("two", addonsv1.MaintenanceVetoAnnotation, "not now")
	f.color("one", "blue")
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["color"] = "blue" })
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(conditions.GetMessage(helmOp, addonsv1.ReadyCondition)).To(gomega.ContainSubstring("waits for maintenance"))
	})
	f.Expect(f.releases()["two"].DeletionTimestamp.IsZero()).To(gomega.BeTrue())
	f.limit("two", addonsv1.MaintenanceVetoAnnotation, "")
	f.eventually(helmOp, func(g gomega.Gomega) {
		two := f.releases()["two"]
		g.Expect(two == nil || !two.DeletionTimestamp.IsZero()).To(gomega.BeTrue())
	})
}
