// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"context"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
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

// Lookup finds the HelmOps that select a Cluster. It caches the compiled selectors, because each event of a Cluster
// needs the selectors of many HelmOps. It is safe for concurrent use.
type Lookup struct {
	reader   client.Reader
	compiled *lru.Cache[client.ObjectKey, compiled]
}

// compiled is the result of SelectorOf for one generation of a HelmOp.
type compiled struct {
	uid        types.UID
	generation int64
	selector   *Selector
	err        error
}

// maxCompiled is the number of HelmOps whose selectors a Lookup caches. A selector takes at most about 12 kB.
const maxCompiled = 1 << 10

// NewLookup returns a Lookup with a reader of HelmOps and Namespaces, which is a cache with ClusterNamespacesIndex.
func NewLookup(reader client.Reader) *Lookup {
	cache, _ := lru.New[client.ObjectKey, compiled](maxCompiled) // fails only for a size below one
	return &Lookup{reader: reader, compiled: cache}
}

// Forget drops the selector of a HelmOp that does not exist any more.
func (l *Lookup) Forget(helmOp client.ObjectKey) { l.compiled.Remove(helmOp) }

// selectorOf is SelectorOf with the cache.
func (l *Lookup) selectorOf(helmOp *addonsv1.HelmOp) (*Selector, error) {
	key := client.ObjectKeyFromObject(helmOp)
	known, ok := l.compiled.Get(key)
	if !ok || known.uid != helmOp.UID || known.generation != helmOp.Generation {
		known = compiled{uid: helmOp.UID, generation: helmOp.Generation}
		known.selector, known.err = SelectorOf(helmOp)
		l.compiled.Add(key, known)
	}
	return known.selector, known.err
}

// HelmOpsOf returns the HelmOps that select a Cluster. A HelmOp with a malformed selector selects nothing. Its
// conditions report the error.
func (l *Lookup) HelmOpsOf(ctx context.Context, cluster metav1.Object) ([]client.ObjectKey, error) {
	return l.helmOpsThat(ctx, cluster.GetNamespace(),
		func(s *Selector) (bool, error) { return s.Selects(ctx, l.reader, cluster) })
}

// HelmOpsOfNamespace returns the HelmOps with spec.clusterNamespaces that select a namespace, by the labels of the
// namespace.
func (l *Lookup) HelmOpsOfNamespace(ctx context.Context, namespace metav1.Object) ([]client.ObjectKey, error) {
	return l.helmOpsThat(ctx, "", func(s *Selector) (bool, error) {
		return s.namespaces != nil && s.namespaces.Matches(labels.Set(namespace.GetLabels())), nil
	})
}

// helmOpsThat returns the HelmOps whose selector passes a test. It tests the HelmOps of a namespace, and all HelmOps
// with spec.clusterNamespaces. If the namespace is empty, it tests only HelmOps with spec.clusterNamespaces.
func (l *Lookup) helmOpsThat(ctx context.Context, namespace string,
	test func(*Selector) (bool, error),
) ([]client.ObjectKey, error) {
	own, crossNamespace := &addonsv1.HelmOpList{}, &addonsv1.HelmOpList{}
	if namespace != "" {
		if err := l.reader.List(ctx, own, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	if err := l.reader.List(ctx, crossNamespace, client.MatchingFields{ClusterNamespacesIndex: "true"},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	candidates := make([]*addonsv1.HelmOp, 0, len(own.Items)+len(crossNamespace.Items))
	for i := range own.Items {
		candidates = append(candidates, &own.Items[i])
	}
	for i := range crossNamespace.Items {
		if crossNamespace.Items[i].Namespace != namespace {
			candidates = append(candidates, &crossNamespace.Items[i])
		}
	}
	var passed []client.ObjectKey
	for _, helmOp := range candidates {
		selector, err := l.selectorOf(helmOp)
		if err != nil {
			continue
		}
		passes, err := test(selector)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if passes {
			passed = append(passed, client.ObjectKeyFromObject(helmOp))
		}
	}
	return passed, nil
}
