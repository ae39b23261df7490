// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// PrepareNamespace sets the desired state of the release's namespace. If create is true, this action may create the
// namespace. It sends no request.
func (s *Session) PrepareNamespace(desired model.Desired, o model.InstallOptions, create bool) {
	n := s.Namespace
	if n == nil {
		return
	}
	n.Name = desired.Namespace
	desiredCreate := !n.Impersonated
	if o.CreateNamespace != nil {
		desiredCreate = *o.CreateNamespace
	}
	n.Create = create && desiredCreate
	n.Labels, n.Annotations = o.NamespaceLabels, o.NamespaceAnnotations
}

// Namespaces resolves the namespaces of objects.
type Namespaces struct {
	mapper meta.RESTMapper
	// release is the namespace of the release.
	release string
	// scoped holds, for each kind that was looked up, whether the kind is or may be namespaced.
	scoped map[schema.GroupVersionKind]bool
	// Err is the error of discovery.
	Err error
}

// Namespaces returns the namespaces of objects of a release in a namespace.
func (s *Session) Namespaces(release string) *Namespaces {
	n := &Namespaces{release: release, scoped: map[schema.GroupVersionKind]bool{}}
	if s.Config.RESTClientGetter != nil {
		// This implementation never returns an error.
		n.mapper, _ = s.Config.RESTClientGetter.ToRESTMapper()
	}
	return n
}

// Of returns the namespace of an object of a kind; named is the namespace in the manifest. An unknown kind counts as
// namespaced, as most kinds are. Without its namespace, an object would not be found; a superfluous namespace is
// ignored.
func (n *Namespaces) Of(kind schema.GroupVersionKind, named string) string {
	scoped, ok := n.scoped[kind]
	if !ok {
		scoped = n.lookUp(kind)
		n.scoped[kind] = scoped
	}
	switch {
	case !scoped:
		return ""
	case named == "":
		return n.release
	default:
		return named
	}
}

// lookUp reports whether a kind is namespaced according to the mapper, or may be.
func (n *Namespaces) lookUp(kind schema.GroupVersionKind) bool {
	if n.mapper == nil {
		return true
	}
	mapping, err := n.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		if !meta.IsNoMatchError(err) {
			n.Err = err
		}
		return true
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace
}
