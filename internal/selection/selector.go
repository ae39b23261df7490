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

// Selector reports which Clusters a HelmOp selects, by spec.clusterSelector, spec.clusterNamespaces and
// spec.managementCluster. A [Guard] decides whether the HelmOp may access these Clusters.
type Selector struct {
	namespace  string
	management bool
	clusters   labels.Selector
	// namespaces selects other namespaces; nil if the HelmOp selects only Clusters of its own namespace.
	namespaces labels.Selector
}

// SelectorOf compiles the selectors of a HelmOp. The error names the malformed field.
func SelectorOf(helmOp *addonsv1.HelmOp) (*Selector, error) {
	s := &Selector{namespace: helmOp.Namespace, management: helmOp.Spec.ManagementCluster != nil}
	var err error
	if s.clusters, err = Compile(helmOp.Spec.ClusterSelector); err != nil {
		return nil, fmt.Errorf("spec.clusterSelector: %w", err)
	}
	if others := helmOp.Spec.ClusterNamespaces; others != nil {
		if s.namespaces, err = Compile(&others.NamespaceSelector); err != nil {
			return nil, fmt.Errorf("spec.clusterNamespaces.namespaceSelector: %w", err)
		}
	}
	return s, nil
}

// Matches reports whether the HelmOp selects a Cluster by the labels of the Cluster. For another namespace, it does not
// check whether the HelmOp selects the namespace. For a Cluster in another namespace, Matches returns false if the
// HelmOp has no spec.clusterNamespaces.
func (s *Selector) Matches(cluster metav1.Object) bool {
	if apiutil.IsManagement(cluster) {
		return s.management
	}
	return (cluster.GetNamespace() == s.namespace || s.namespaces != nil) &&
		s.clusters.Matches(labels.Set(cluster.GetLabels()))
}

// Selects reports whether the HelmOp selects a Cluster. If the Cluster and the HelmOp are in different namespaces, it
// reads the Namespace. If the Namespace does not exist, it returns a NotFound error, and the caller must decide whether
// the Cluster is selected.
func (s *Selector) Selects(ctx context.Context, reader client.Reader, cluster metav1.Object) (bool, error) {
	if !s.Matches(cluster) || apiutil.IsManagement(cluster) {
		return s.Matches(cluster), nil
	}
	return s.SelectsNamespace(ctx, reader, cluster.GetNamespace())
}

// SelectsNamespace reports whether the HelmOp selects Clusters of a namespace. It returns the same errors as Selects.
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

// HelmOpsOf returns the HelmOps that select a Cluster. A HelmOp with a malformed selector selects nothing. Its
// conditions report the error. The result is shared with the cache: do not change it.
func HelmOpsOf(ctx context.Context, reader client.Reader, cluster metav1.Object) ([]addonsv1.HelmOp, error) {
	return helmOpsThat(ctx, reader, cluster.GetNamespace(),
		func(s *Selector) (bool, error) { return s.Selects(ctx, reader, cluster) })
}

// HelmOpsOfNamespace returns the HelmOps with spec.clusterNamespaces that select a namespace, by the labels of the
// namespace. The result is shared with the cache: do not change it.
func HelmOpsOfNamespace(ctx context.Context, reader client.Reader, namespace metav1.Object) ([]addonsv1.HelmOp, error) {
	return helmOpsThat(ctx, reader, "", func(s *Selector) (bool, error) {
		return s.namespaces != nil && s.namespaces.Matches(labels.Set(namespace.GetLabels())), nil
	})
}

// helmOpsThat returns the HelmOps whose selector passes a test. It tests the HelmOps of a namespace, and all HelmOps
// with spec.clusterNamespaces. If the namespace is empty, it tests only HelmOps with spec.clusterNamespaces.
func helmOpsThat(ctx context.Context, reader client.Reader, namespace string,
	test func(*Selector) (bool, error),
) ([]addonsv1.HelmOp, error) {
	own, crossNamespace := &addonsv1.HelmOpList{}, &addonsv1.HelmOpList{}
	if namespace != "" {
		if err := reader.List(ctx, own, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	if err := reader.List(ctx, crossNamespace, client.MatchingFields{ClusterNamespacesIndex: "true"},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(crossNamespace.Items),
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
