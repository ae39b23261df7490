// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	infrav1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/infrastructure/v1alpha1"
)

func TestCRDsHaveContractLabelAndStatus(t *testing.T) {
	t.Parallel()
	crds, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		"localclusters." + infrav1.GroupVersion.Group:                     true,
		"localclustertemplates." + infrav1.GroupVersion.Group:             true,
		"localcontrolplanes." + controlplanev1.GroupVersion.Group:         true,
		"localcontrolplanetemplates." + controlplanev1.GroupVersion.Group: true,
	}
	for _, crd := range crds {
		if !want[crd.Name] {
			t.Errorf("unexpected %s", crd.Name)
		}
		delete(want, crd.Name)
		if got := crd.Labels[clusterv1.GroupVersion.String()]; got != crd.Spec.Versions[0].Name {
			t.Errorf("%s has the contract label %q", crd.Name, got)
		}
		if strings.Contains(crd.Name, "templates.") {
			continue
		}
		if crd.Spec.Versions[0].Subresources.Status == nil {
			t.Errorf("%s has no status subresource", crd.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestSetStatus(t *testing.T) {
	t.Parallel()
	obj := &controlplanev1.LocalControlPlane{Spec: controlplanev1.LocalControlPlaneSpec{HoldBack: true}}
	available := func() metav1.ConditionStatus {
		return meta.FindStatusCondition(obj.Status.Conditions, controlplanev1.AvailableCondition).Status
	}
	steps := []struct {
		name     string
		holdBack bool
		want     bool
	}{
		{"held back", true, false},
		{"released", false, true},
		{"initialized forever", true, true},
	}
	for _, step := range steps {
		obj.Spec.HoldBack = step.holdBack
		setStatus(obj, "v1.36.3")
		if got := obj.Status.Initialization != nil; got != step.want {
			t.Errorf("%s: initialized is %t", step.name, got)
		}
		if got := available() == metav1.ConditionTrue; got != step.want {
			t.Errorf("%s: Available is %s", step.name, available())
		}
	}
	if got := obj.Status.ProgramVersion; got != "v1.36.3" {
		t.Errorf("programVersion is %q", got)
	}
	if !*obj.Status.ExternalManagedControlPlane || *obj.Status.ReadyReplicas != 1 || obj.Status.Version != "v1.36.3" {
		t.Errorf("unexpected status %+v", obj.Status)
	}
}

func TestRequestsForIgnoresOtherGroups(t *testing.T) {
	t.Parallel()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group,
		Kind: "LocalCluster", Name: "x"}
	got := requestsFor(cluster, cluster.Spec.InfrastructureRef, infrav1.GroupVersion.Group)
	if len(got) != 1 || got[0].String() != "ns/x" {
		t.Errorf("got %v", got)
	}
	if got := requestsFor(cluster, cluster.Spec.InfrastructureRef, controlplanev1.GroupVersion.Group); got != nil {
		t.Errorf("got for an object of another group: %v", got)
	}
}

func TestStatusVersionFollowsSpecUnlessHeld(t *testing.T) {
	t.Parallel()
	obj := &controlplanev1.LocalControlPlane{}
	steps := []struct {
		name, desired string
		hold          bool
		want          string
	}{
		{"the first version is not held", "v1.34.1", true, "v1.34.1"},
		{"held", "v1.35.0", true, "v1.34.1"},
		{"released", "v1.35.0", false, "v1.35.0"},
		{"no desired version", "", false, "v1.36.3"},
	}
	for _, step := range steps {
		obj.Spec.Version, obj.Spec.HoldUpgrade = step.desired, step.hold
		setStatus(obj, "v1.36.3")
		if got := obj.Status.Version; got != step.want {
			t.Errorf("%s: version is %s, want %s", step.name, got, step.want)
		}
	}
}
