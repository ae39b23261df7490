// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apilifecycle

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Stage is the state of an API in a version of Kubernetes.
type Stage string

// The stages.
const (
	// Current means that the API is served, as far as is known, and not deprecated.
	Current Stage = "Current"
	// Deprecated means that the API is served, and will be removed.
	Deprecated Stage = "Deprecated"
	// Removed means that the API is not served.
	Removed Stage = "Removed"
	// Unknown means that the group is a group of Kubernetes, but the modules do not have the kind in this version, or do
	// not have the versions of Kubernetes that serve it. The replacement is the newest version of the kind in the modules.
	Unknown Stage = "Unknown"
)

// Definitions are the CustomResourceDefinitions of a cluster and of a chart, by their kinds.
type Definitions map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition

// Add adds a definition. A later definition replaces an earlier definition of the same kind: pass the definitions of a
// chart after the definitions of the cluster. Add keeps only what determines the stages of the versions: the schemas
// of a definition may have megabytes.
func (d Definitions) Add(definition *apiextensionsv1.CustomResourceDefinition) {
	kept := &apiextensionsv1.CustomResourceDefinition{}
	for i := range definition.Spec.Versions {
		one := &definition.Spec.Versions[i]
		kept.Spec.Versions = append(kept.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: one.Name, Served: one.Served,
			Deprecated: one.Deprecated, DeprecationWarning: one.DeprecationWarning,
		})
	}
	d[schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}] = kept
}

// Of returns the stage and the lifecycle of the API of a CustomResourceDefinition; false if there is no definition of
// the kind.
func (d Definitions) Of(kind schema.GroupVersionKind) (Stage, Lifecycle, bool) {
	definition, ok := d[kind.GroupKind()]
	if !ok {
		return Current, Lifecycle{}, false
	}
	var known Lifecycle
	if replacement := newestServed(definition); replacement != "" {
		known.Replacement = kind.GroupKind().WithVersion(replacement)
	}
	for i := range definition.Spec.Versions {
		one := &definition.Spec.Versions[i]
		switch {
		case one.Name != kind.Version || !one.Served:
			continue
		case !one.Deprecated:
			return Current, Lifecycle{}, true
		case one.DeprecationWarning != nil:
			known.Warning = *one.DeprecationWarning
		}
		return Deprecated, known, true
	}
	return Removed, known, true
}

// newestServed returns the newest version that a definition serves and that is not deprecated; empty if there is none.
func newestServed(definition *apiextensionsv1.CustomResourceDefinition) string {
	var names []string
	for i := range definition.Spec.Versions {
		if one := &definition.Spec.Versions[i]; one.Served && !one.Deprecated {
			names = append(names, one.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.MaxFunc(names, version.CompareKubeAwareVersionStrings)
}

// At returns the stage and the lifecycle of an API in a version of Kubernetes. The definitions take precedence over the
// APIs of Kubernetes. A kind of a group of another project, without a definition, is Current: an aggregated API server
// may serve it, and the version of Kubernetes does not matter.
func (d Definitions) At(kind schema.GroupVersionKind, target Version) (Stage, Lifecycle) {
	if stage, known, ok := d.Of(kind); ok {
		return stage, known
	}
	known, ok := OfKubernetes(kind)
	switch {
	case !ok && IsOfKubernetes(kind.Group):
		return Unknown, Lifecycle{Replacement: newestOf(kind.GroupKind())}
	case known.IsUndated:
		known.Replacement = newestOf(kind.GroupKind())
		return Unknown, known
	case !known.Removed.IsZero() && target.Compare(known.Removed) >= 0:
		return Removed, known
	case !known.Deprecated.IsZero() && target.Compare(known.Deprecated) >= 0:
		return Deprecated, known
	default:
		return Current, known
	}
}
