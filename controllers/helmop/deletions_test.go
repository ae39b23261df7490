// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// clustersWithUnselected returns forty Clusters with releases. The first Clusters are no longer selected.
func clustersWithUnselected(leaving int) []rollout.Cluster {
	var clusters []rollout.Cluster
	for i := range 40 {
		clusters = append(clusters, rollout.Cluster{Name: fmt.Sprintf("c%02d", i), Selected: i >= leaving,
			Child: &rollout.Child{}})
	}
	return clusters
}

func TestDeletionsAreHeldAndConfirmed(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{now: time.Now, recorder: recorder}
	helmOp := &addonsv1.HelmOp{}
	helmOp.Namespace, helmOp.Name = "n", "calico"
	pass := func(leaving int) *helmOpScope {
		scope := &helmOpScope{helmOp: helmOp}
		scope.deletions = r.decideDeletions(scope, clustersWithUnselected(leaving))
		if err := r.recordDeletions(t.Context(), scope, nil); err != nil {
			t.Fatal(err)
		}
		r.reportDeletions(scope)
		return scope
	}
	pass(11)
	status := helmOp.Status.Deletions
	if status == nil || status.Waiting != 11 || status.Confirmation == "" ||
		!conditions.IsTrue(helmOp, addonsv1.DeletionsHeldCondition) {
		t.Fatalf("11 of 40 do not wait: %+v", status)
	}
	message := conditions.GetMessage(helmOp, addonsv1.DeletionsHeldCondition)
	for _, want := range []string{"11 of 40 releases", "allows 10", "c00, c01, c02 and 8 more",
		addonsv1.ConfirmDeletionsAnnotation + "=" + status.Confirmation} {
		if !strings.Contains(message, want) {
			t.Errorf("no %q in %q", want, message)
		}
	}
	if event := <-recorder.Events; !strings.Contains(event, addonsv1.DeletionsHeldEvent) {
		t.Error(event)
	}
	// After a restart, the manager has only the status.
	if again := pass(11); !again.deletions.Held || !equality.Semantic.DeepEqual(helmOp.Status.Deletions, status) {
		t.Errorf("the status changes from %+v to %+v", status, helmOp.Status.Deletions)
	}
	helmOp.Annotations = map[string]string{addonsv1.ConfirmDeletionsAnnotation: status.Confirmation}
	if confirmed := pass(11); confirmed.deletions.Held || conditions.Get(helmOp, addonsv1.DeletionsHeldCondition) != nil {
		t.Errorf("they are not confirmed: %+v", confirmed.deletions)
	}
	if event := <-recorder.Events; !strings.Contains(event, addonsv1.DeletionsConfirmedEvent) {
		t.Error(event)
	}
	if helmOp.Status.Deletions.Confirmed != 11 {
		t.Errorf("%+v", helmOp.Status.Deletions)
	}
	if pass(0); helmOp.Status.Deletions != nil {
		t.Errorf("something is left: %+v", helmOp.Status.Deletions)
	}
}

func TestDeletionsThatAreNotHeld(t *testing.T) {
	t.Parallel()
	r := &Reconciler{now: time.Now}
	all := intstr.FromString("100%")
	for name, tc := range map[string]struct {
		helmOp func(*addonsv1.HelmOp)
		change func(*rollout.Cluster)
		held   bool
	}{
		"as a rule, they are": {held: true},
		"releases that are orphaned": {helmOp: func(h *addonsv1.HelmOp) {
			h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
		}},
		"without a limit":           {helmOp: func(h *addonsv1.HelmOp) { h.Spec.MaxDeletions = &all }},
		"missing Clusters":          {change: func(c *rollout.Cluster) { c.Gone = true }},
		"Clusters under deletion":   {change: func(c *rollout.Cluster) { c.Deleting = true }},
		"releases of other HelmOps": {change: func(c *rollout.Cluster) { c.Child.Foreign = true }},
		"paused Clusters":           {change: func(c *rollout.Cluster) { c.Paused = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			helmOp := &addonsv1.HelmOp{}
			if tc.helmOp != nil {
				tc.helmOp(helmOp)
			}
			clusters := clustersWithUnselected(40)
			for i := range clusters {
				if tc.change != nil {
					tc.change(&clusters[i])
				}
			}
			if decision := r.decideDeletions(&helmOpScope{helmOp: helmOp}, clusters); decision.Held != tc.held {
				t.Errorf("%+v", decision)
			}
		})
	}
}

// TestDeletionStatusKeepsTheState checks that the status contains all inputs of the next decision.
func TestDeletionStatusKeepsTheState(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	for _, decision := range []brake.Decision{
		{},
		{State: brake.State{Recent: 3, LastAt: now}},
		{State: brake.State{Confirmed: 4, Recent: 1, LastAt: now}},
		{Held: true, Confirmation: "12-a", State: brake.State{WaitingSince: now, MostWaiting: 14}},
	} {
		if got := deletionState(deletionStatus(&decision, 12)); got != decision.State {
			t.Errorf("%+v became %+v", decision.State, got)
		}
	}
}
