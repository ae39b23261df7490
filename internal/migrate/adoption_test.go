// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

func TestIsAdopted(t *testing.T) {
	release := &Release{Cluster: types.NamespacedName{Namespace: "fleet", Name: "one"}, Name: "calico",
		Namespace: "tigera", Revision: 3}
	child := func(change func(*addonsv1.HelmOpRelease)) *addonsv1.HelmOpRelease {
		c := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		c.Spec.Release = addonsv1.ReleaseIdentity{Name: "calico", Namespace: "tigera"}
		c.Status.ObservedGeneration = 2
		c.Status.Release = &addonsv1.ReleaseObservation{Revision: 3}
		c.Status.Conditions = []metav1.Condition{{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionTrue}}
		change(c)
		return c
	}
	for name, test := range map[string]struct {
		child   *addonsv1.HelmOpRelease
		missing string
	}{
		"adopted": {child(func(*addonsv1.HelmOpRelease) {}), ""},
		"not assigned": {nil,
			"Cluster one: HelmOp has not assigned the release yet"},
		"another name": {child(func(c *addonsv1.HelmOpRelease) { c.Spec.Release.Name = "other" }),
			"Cluster one: HelmOp names the release tigera/other, and the existing release is tigera/calico"},
		"an old status": {child(func(c *addonsv1.HelmOpRelease) { c.Status.ObservedGeneration = 1 }),
			"Cluster one: HelmOp has not reconciled the release yet"},
		"refused": {child(func(c *addonsv1.HelmOpRelease) {
			c.Status.Conditions[0] = metav1.Condition{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionFalse,
				Reason: "Reason", Message: "message"}
		}), "Cluster one: Reason: message"},
		"being deleted": {child(func(c *addonsv1.HelmOpRelease) { c.DeletionTimestamp = &metav1.Time{} }),
			"Cluster one: the HelmOpRelease is being deleted"},
		"installed": {child(func(c *addonsv1.HelmOpRelease) { c.Status.Release.Revision = 1 }),
			"Cluster one: HelmOp has Helm revision 1 of the release, and the other tool had 3: HelmOp may have installed the " +
				"chart in a cluster that did not have the release; check the kubeconfig of the other tool's object"},
		"upgraded": {child(func(c *addonsv1.HelmOpRelease) { c.Status.Release.Revision = 4 }), ""},
		"not read": {child(func(c *addonsv1.HelmOpRelease) { c.Status.Release = nil }),
			"Cluster one: HelmOp has not read the release yet"},
	} {
		t.Run(name, func(t *testing.T) {
			adopted, missing := IsAdopted(release, test.child)
			if missing != test.missing || adopted != (test.missing == "") {
				t.Errorf("%t, %q", adopted, missing)
			}
		})
	}
	installed := child(func(c *addonsv1.HelmOpRelease) { c.Status.Release.Revision = 1 })
	if !IsHeld(release, installed, 0) || IsHeld(release, child(func(*addonsv1.HelmOpRelease) {}), 0) {
		t.Error("only a user can decide about another release")
	}
	if !IsUnchanged(release, child(func(*addonsv1.HelmOpRelease) {})) ||
		IsUnchanged(release, child(func(c *addonsv1.HelmOpRelease) { c.Status.Release.Revision = 4 })) {
		t.Error("another Helm revision is a change")
	}
	if !IsUnchanged(release, nil) ||
		!IsUnchanged(release, child(func(c *addonsv1.HelmOpRelease) { c.Status.Release = nil })) {
		t.Error("a Helm revision that is not known is no change")
	}
}
