// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// Selector tells which Clusters a HelmOp selects by spec.clusterSelector, spec.clusterNamespaces and
// spec.managementCluster. Whether the HelmOp may access these Clusters is the decision of a [Guard].
type Selector struct {
	namespace  string
	management bool
	clusters   labels.Selector
	// namespaces selects other namespaces; nil if the HelmOp selects Clusters of its own namespace only.
	namespaces labels.Selector
}

// SelectorOf compiles the selectors of a HelmOp. The error names the field that is malformed.
func SelectorOf(helmOp *addonsv1.HelmOp) (*Selector, error) {
	s := &Selector{namespace: helmOp.Namespace, management: helmOp.Spec.ManagementCluster != nil}
	var err error
	if s.clusters, err = metav1.LabelSelectorAsSelector(helmOp.Spec.ClusterSelector); err != nil {
		return nil, fmt.Errorf("spec.clusterSelector: %w", err)
	}
	if others := helmOp.Spec.ClusterNamespaces; others != nil {
		if s.namespaces, err = metav1.LabelSelectorAsSelector(&others.NamespaceSelector); err != nil {
			return nil, fmt.Errorf("spec.clusterNamespaces.namespaceSelector: %w", err)
		}
	}
	return s, nil
}

// Matches reports whether the HelmOp selects a Cluster if it selects the namespace of the Cluster. It is false in
// another namespace if the HelmOp has no spec.clusterNamespaces.
func (s *Selector) Matches(cluster metav1.Object) bool {
	if apiutil.IsManagement(cluster) {
		return s.management
	}
	return (cluster.GetNamespace() == s.namespace || s.namespaces != nil) &&
		s.clusters.Matches(labels.Set(cluster.GetLabels()))
}

// Selects reports whether the HelmOp selects a Cluster. It reads the Namespace of the Cluster if that is another one
// than the HelmOp's. The error is a NotFound one if the Namespace does not exist: whether that means "not selected" is
// the decision of the caller.
func (s *Selector) Selects(ctx context.Context, reader client.Reader, cluster metav1.Object) (bool, error) {
	if !s.Matches(cluster) || apiutil.IsManagement(cluster) {
		return s.Matches(cluster), nil
	}
	return s.SelectsNamespace(ctx, reader, cluster.GetNamespace())
}

// SelectsNamespace reports whether the HelmOp selects Clusters of a namespace. For its error see Selects.
func (s *Selector) SelectsNamespace(ctx context.Context, reader client.Reader, name string) (bool, error) {
	if name == s.namespace || s.namespaces == nil {
		return name == s.namespace, nil
	}
	namespace := apiutil.PartialOf(apiutil.KindNamespace)
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, err
	}
	return s.namespaces.Matches(labels.Set(namespace.Labels)), nil
}

// HelmOpsOf returns the HelmOps that select a Cluster. A HelmOp whose selector is malformed selects nothing: its own
// condition says so. The result is shared with the cache.
func HelmOpsOf(ctx context.Context, reader client.Reader, cluster metav1.Object) ([]addonsv1.HelmOp, error) {
	return helmOpsThat(ctx, reader, cluster.GetNamespace(),
		func(s *Selector) (bool, error) { return s.Selects(ctx, reader, cluster) })
}

// HelmOpsOfNamespace returns the HelmOps of other namespaces that select Clusters of a namespace with some labels. The
// result is shared with the cache.
func HelmOpsOfNamespace(ctx context.Context, reader client.Reader, namespace metav1.Object) ([]addonsv1.HelmOp, error) {
	return helmOpsThat(ctx, reader, "", func(s *Selector) (bool, error) {
		return s.namespaces != nil && s.namespaces.Matches(labels.Set(namespace.GetLabels())), nil
	})
}

// helmOpsThat returns, of the HelmOps of a namespace (none if it is empty) and of those that select other namespaces,
// the ones whose selector passes a test.
func helmOpsThat(ctx context.Context, reader client.Reader, namespace string,
	test func(*Selector) (bool, error),
) ([]addonsv1.HelmOp, error) {
	own, roaming := &addonsv1.HelmOpList{}, &addonsv1.HelmOpList{}
	if namespace != "" {
		if err := reader.List(ctx, own, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	if err := reader.List(ctx, roaming, client.MatchingFields{ClusterNamespacesIndex: "true"},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(roaming.Items),
		func(helmOp addonsv1.HelmOp) bool { return helmOp.Namespace == namespace })
	var passed []addonsv1.HelmOp
	for _, helmOp := range slices.Concat(own.Items, others) {
		selector, err := SelectorOf(&helmOp)
		if err != nil {
			continue
		}
		passes, err := test(selector)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if passes {
			passed = append(passed, helmOp)
		}
	}
	return passed, nil
}
