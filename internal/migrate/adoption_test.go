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
	if !IsUnchanged(release, child(func(*addonsv1.HelmOpRelease) {})) ||
		IsUnchanged(release, child(func(c *addonsv1.HelmOpRelease) { c.Status.Release.Revision = 4 })) {
		t.Error("another Helm revision is a change")
	}
}
