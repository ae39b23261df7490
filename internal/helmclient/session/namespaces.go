// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// PrepareNamespace sets the desired state of the release's namespace. If create is true, the action may create the
// namespace. PrepareNamespace sends no request.
func (s *Session) PrepareNamespace(desired model.Desired, o model.InstallOptions, create bool) {
	if s.Namespace != nil {
		s.Namespace.Prepare(desired, o, create)
	}
}

// Namespaces resolves the namespaces of objects.
type Namespaces struct {
	mapper  meta.RESTMapper
	release string
	// scoped is true for kinds that are namespaced, or may be. It has only kinds that were looked up.
	scoped map[schema.GroupVersionKind]bool
	// Err is the error of discovery.
	Err error
}

// Namespaces returns a Namespaces for the objects of a release. release is the namespace of the release.
func (s *Session) Namespaces(release string) *Namespaces {
	n := &Namespaces{release: release, scoped: map[schema.GroupVersionKind]bool{}}
	if s.Config.RESTClientGetter != nil {
		// This implementation never returns an error.
		n.mapper, _ = s.Config.RESTClientGetter.ToRESTMapper()
	}
	return n
}

// Of returns the namespace of an object. named is the namespace in the manifest. All versions of a kind have the same
// scope, so the version need not be served. An unknown kind counts as namespaced, because most kinds are namespaced.
// Without its namespace, an object would not be found, but an unneeded namespace is ignored.
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

// lookUp returns true if a kind is namespaced according to the mapper, or if the mapper does not know the kind.
func (n *Namespaces) lookUp(kind schema.GroupVersionKind) bool {
	if n.mapper == nil {
		return true
	}
	mapping, err := n.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = n.mapper.RESTMapping(kind.GroupKind())
	}
	if err != nil {
		if !meta.IsNoMatchError(err) {
			n.Err = err
		}
		return true
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace
}
