// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermove

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// definitions returns a client with the CustomResourceDefinitions of a management cluster. clusterctl labels the
// definitions that it installs, also those of cert-manager.
func definitions(t *testing.T) client.Client {
	t.Helper()
	const found, moved, hierarchy = clusterctlv1.ClusterctlLabel, clusterctlv1.ClusterctlMoveLabel,
		clusterctlv1.ClusterctlMoveHierarchyLabel
	return controllertest.DefinitionsClient(t, map[schema.GroupKind][]string{
		{Group: "cluster.x-k8s.io", Kind: "Cluster"}:                {found},
		{Group: "operator.cluster.x-k8s.io", Kind: "AddonProvider"}: {},
		{Group: "cert-manager.io", Kind: "Certificate"}:             {found, clusterctlv1.ClusterctlCoreLabel},
		{Group: "argoproj.io", Kind: "Application"}:                 {},
		{Group: "metal3.io", Kind: "BareMetalHost"}:                 {found, hierarchy},
		{Group: "example.com", Kind: "Pool"}:                        {found, moved},
		{Group: "example.com", Kind: "Unfound"}:                     {moved},
	})
}

// TestMovedObjects checks that the mark of clusterctl move counts only on objects that clusterctl move moves.
func TestMovedObjects(t *testing.T) {
	t.Parallel()
	c := definitions(t)
	const marked, movable = objectwatch.Marked, objectwatch.MarkedMovable
	for name, tc := range map[string]struct {
		group, kind string
		mark        objectwatch.MoveMark
		isGlobal    bool
		want        bool
	}{
		"Cluster":             {group: "cluster.x-k8s.io", kind: "Cluster", mark: marked, want: true},
		"Cluster, not marked": {group: "cluster.x-k8s.io", kind: "Cluster"},
		"cluster-scoped":      {group: "cluster.x-k8s.io", kind: "Cluster", mark: movable, isGlobal: true},
		"CustomResourceDefinition": {group: "apiextensions.k8s.io", kind: "CustomResourceDefinition",
			mark: movable, isGlobal: true},
		"APIService":                       {group: "apiregistration.k8s.io", kind: "APIService", mark: movable, isGlobal: true},
		"Cluster API Operator":             {group: "operator.cluster.x-k8s.io", kind: "AddonProvider", mark: movable},
		"Certificate":                      {group: "cert-manager.io", kind: "Certificate", mark: marked},
		"Certificate with an owner":        {group: "cert-manager.io", kind: "Certificate", mark: movable, want: true},
		"Application":                      {group: "argoproj.io", kind: "Application", mark: marked},
		"Application with an owner":        {group: "argoproj.io", kind: "Application", mark: movable},
		"labelled kind with its hierarchy": {group: "metal3.io", kind: "BareMetalHost", mark: marked, want: true},
		"labelled kind":                    {group: "example.com", kind: "Pool", mark: marked, want: true},
		"kind that clusterctl omits":       {group: "example.com", kind: "Unfound", mark: movable},
		"kind without a definition":        {group: "metrics.k8s.io", kind: "PodMetrics", mark: movable},
		"Secret":                           {kind: "Secret", mark: marked},
		"Secret with an owner":             {kind: "Secret", mark: movable, want: true},
		"ConfigMap with a label":           {kind: "ConfigMap", mark: movable, want: true},
		"Deployment with a label":          {group: "apps", kind: "Deployment", mark: movable},
		"Service with a label":             {kind: "Service", mark: movable},
	} {
		ref := inventory.Ref{Group: tc.group, Version: "v1", Kind: tc.kind, Namespace: "fleet", Name: "one"}
		if tc.isGlobal {
			ref.Namespace = ""
		}
		got, err := MovedObjects(t.Context(), c, &objectwatch.Snapshot{Objects: map[inventory.Ref]objectwatch.State{
			ref: {Known: true, MoveMark: tc.mark}}})
		if err != nil || (len(got) == 1) != tc.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestMovedObjectsOrder checks that Clusters are first, and that each CustomResourceDefinition is read once. No object
// counts while its CustomResourceDefinition cannot be read: the caller must wait.
func TestMovedObjectsOrder(t *testing.T) {
	t.Parallel()
	reads := 0
	var failure error
	c := interceptor.NewClient(definitions(t).(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			reads++
			return errors.Join(failure, c.Get(ctx, key, object, options...))
		}})
	host := inventory.Ref{Group: "metal3.io", Version: "v1", Kind: "BareMetalHost", Namespace: "a", Name: "host"}
	other := inventory.Ref{Group: "metal3.io", Version: "v1", Kind: "BareMetalHost", Namespace: "b", Name: "host"}
	cluster := inventory.Ref{Group: "cluster.x-k8s.io", Version: "v1", Kind: "Cluster", Namespace: "z", Name: "one"}
	left := inventory.Ref{Group: "argoproj.io", Version: "v1", Kind: "Application", Namespace: "a", Name: "left"}
	snapshot := &objectwatch.Snapshot{Objects: map[inventory.Ref]objectwatch.State{left: {}}}
	for _, ref := range []inventory.Ref{host, other, cluster} {
		snapshot.Objects[ref] = objectwatch.State{MoveMark: objectwatch.Marked}
	}
	got, err := MovedObjects(t.Context(), c, snapshot)
	if err != nil || len(got) != 3 || got[0] != cluster || got[1] != host || got[2] != other {
		t.Errorf("%v, %v", got, err)
	}
	if reads != 2 {
		t.Errorf("%d reads of 2 CustomResourceDefinitions", reads)
	}
	failure = errors.New("no answer")
	if got, err := MovedObjects(t.Context(), c, snapshot); !errors.Is(err, failure) || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}
